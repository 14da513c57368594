"""Scanning bytes for what they could do: pickles, also hidden ones, and programs; nothing runs."""
