"""Experiments: arms, tallies, comparisons, findings and their wording; pure arithmetic on plain
values, without events, lanes or I/O.
"""
