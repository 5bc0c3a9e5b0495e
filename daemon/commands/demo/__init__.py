"""`relevanced demo`: everything in one process; the daemon's own parts stay in their rooms."""
