"""Offline evaluation of TREC run files."""
