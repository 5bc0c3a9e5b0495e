"""A lane as bytes, and the store that contains it. The encoding is pure, and no rule of the join or
of a metric belongs here.
"""
