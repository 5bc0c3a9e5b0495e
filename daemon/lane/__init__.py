"""One lane in memory: open impressions, rows, segments, and what changes add to them; pure, and
without the rules that decide which events join.
"""
