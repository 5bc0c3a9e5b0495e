"""Events: their types, and the formats from whose bytes they are decoded. Nothing here knows a lane,
a window or Kafka.
"""
