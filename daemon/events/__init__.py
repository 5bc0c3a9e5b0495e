"""Event types, and the formats from whose bytes they are decoded; nothing here knows a lane, a
window or Kafka.
"""
