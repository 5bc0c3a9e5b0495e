"""Dated files of judgements, and of classes of queries: what they say, which of them is in force
when, and the scores of shown lists; all of it pure but for the directory that holds the files.
"""
