"""The Redis door: the only room that imports its client."""
