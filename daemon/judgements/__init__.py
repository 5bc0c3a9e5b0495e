"""Judgements: files of grades by query and item, which of them is in force when, and the scores of
shown lists by them; all of it pure but for the directory that holds the files, and used by
`judgements check` while lanes do not grade.
"""
