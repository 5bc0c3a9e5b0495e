"""The API: the table of routes, and answers made from one reading of the lanes, off the event
loop.
"""
