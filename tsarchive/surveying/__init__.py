"""Whole folders, buckets and lists of archives: a row for each file, and what the rows tell.

May import all rooms below the command line.
"""
