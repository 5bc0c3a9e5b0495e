"""The store in Redis: the only modules that import the Redis client; they move bytes, whose
encoding belongs to `storage` itself.
"""
