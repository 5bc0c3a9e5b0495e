"""What a record says: event types, and the formats that bytes are parsed from; nothing here
knows a lane, a window or Kafka.
"""
