"""`relevanced simulate`: a model of search traffic, and where its events go; nothing of the daemon
depends on it but the demo.
"""
