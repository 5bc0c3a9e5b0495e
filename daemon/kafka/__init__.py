"""The Kafka door: the only room that imports the Kafka client."""
