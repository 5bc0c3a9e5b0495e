"""A source compiled: slices of records to columns, without the interpreter."""
