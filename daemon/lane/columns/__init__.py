"""Columns: growing arrays of integers and texts with a constant cost per entry; they know
nothing of events or lanes.
"""
