"""The rules of the join: which impression an event belongs to and what it changes; pure, and
nothing here knows how state is stored.
"""
