"""`relevanced demo`: everything in one process."""
