"""Leaving: which formats a model can move to, found by trying each of them.

``plan`` holds what was found, and needs no torch; ``trying`` converts and runs. May import whatever
converts, loads and writes; what runs the code that was written is a process of its own.
"""

from .plan import LeavingPlan, Outcome, WayOut

__all__ = ["LeavingPlan", "Outcome", "WayOut"]
