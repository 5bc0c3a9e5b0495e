"""The HTTP door: the only room that imports the HTTP library; it answers from what the
exporter published and computes no score.
"""
