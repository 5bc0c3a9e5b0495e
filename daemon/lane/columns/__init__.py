"""Growing arrays of integers and texts, and an index over them, at a constant cost per entry; they
know nothing of events or lanes.
"""
