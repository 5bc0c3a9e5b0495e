"""Queries: which texts are one query, the bounded table of one lane and hour, and what many of them
come to; pure values and rules, which know neither lanes nor storage.
"""
