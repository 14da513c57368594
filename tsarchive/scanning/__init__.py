"""Scanning bytes for what they could do: pickles, also hidden ones, and programs; nothing runs.

May import the container, pickles, the table of operators and descriptions.
"""
