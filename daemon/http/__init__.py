"""The HTTP server, its API and the web page: the only room that imports the HTTP library; it
answers from what the exporter published and computes no score.
"""
