"""The table of operators: their schemas in each torch, and what each may do and why.

It needs no torch, and imports ``tsarchive.ir`` alone.
"""
