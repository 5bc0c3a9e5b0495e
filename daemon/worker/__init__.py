"""The role that commits: batches of records from a source to commits in a store; it knows
neither Kafka nor Redis, only their ports.
"""
