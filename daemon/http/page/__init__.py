"""The files of the page: no code of Python's."""
