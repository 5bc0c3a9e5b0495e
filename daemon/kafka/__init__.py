"""Reads from Kafka and sends to it: the only room that imports the Kafka client; it keeps no state
of a lane but the next offsets, and knows nothing of events or metrics.
"""
