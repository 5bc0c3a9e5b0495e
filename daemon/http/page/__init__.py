"""The files of the page; no Python code."""
