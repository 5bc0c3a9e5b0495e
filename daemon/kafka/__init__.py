"""The Kafka door: the only room that imports its client."""
