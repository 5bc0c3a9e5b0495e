"""Reads from Kafka and sends to it: the only package that imports the Kafka client."""
