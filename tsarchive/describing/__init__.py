"""Descriptions of files, as values and in words, for commands and pages.

May import the IR and the frontend.
"""
