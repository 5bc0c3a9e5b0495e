"""The configuration: what can be set, its rules, and reading it; it opens no connection and
starts nothing.
"""
