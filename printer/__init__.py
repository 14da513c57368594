"""Types, the program graph, and the graph as source. Knows no torch, but for ``adopt.py``."""
