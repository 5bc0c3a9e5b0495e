"""The rules of the join: which impression an event belongs to and what becomes of it; pure,
and nothing here knows how state is stored.
"""
