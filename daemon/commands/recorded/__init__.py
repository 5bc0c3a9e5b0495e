"""What `replay` reads: recorded events in files, their order, and why some are refused."""
