"""The demonstration: everything in one process."""
