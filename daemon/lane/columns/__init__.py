"""Columns: growing arrays of integers and texts, and an index over them, at a constant cost per
entry. They know nothing of events or lanes.
"""
