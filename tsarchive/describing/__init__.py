"""Descriptions of files, as values and in words, for commands and pages."""
