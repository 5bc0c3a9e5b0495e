"""Event formats: bytes to events."""
