"""What experiments come to: arms, tallies, comparisons and their wording; pure arithmetic on
plain values, without events, lanes or I/O.
"""
