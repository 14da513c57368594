"""Descriptions of files, as values and in words, for commands and pages.

May import the IR, the table of operators and the frontend.
"""
