"""A lane as bytes, and the store that contains it; the encoding is pure, and no rule of the join or
of a metric belongs here.
"""
