"""A lane as bytes, and the store that owns them; the encoding is pure, and no rule of the
join or of a metric belongs here.
"""
