"""The HTTP door: the only room that imports its library."""
