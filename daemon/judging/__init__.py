"""Judging: whether a score changed, by how much, since when, and what kind of change it looks like;
pure arithmetic on plain arrays, without lanes or I/O.
"""
