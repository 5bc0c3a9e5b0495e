"""The store in Redis: the only modules that import the Redis client."""
