"""The Redis door: the only room that imports the Redis client."""
