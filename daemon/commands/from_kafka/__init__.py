"""`relevanced replay --kafka`: hours that Kafka still has, under any configuration."""
