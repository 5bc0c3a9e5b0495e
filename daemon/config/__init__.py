"""The configuration: what can be set, its rules, and reading it."""
