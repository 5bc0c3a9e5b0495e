"""`relevanced verify`: every number of a lane in Redis, proven from the records of Kafka."""
