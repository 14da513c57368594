"""Reporting: one self-contained HTML page about a file, or about what changed between two.

May import what looks at files: formats, verifying, auditing and diffing; not what loads or runs
them.
"""

from .page import STEPS, Page, SectionSize, report

__all__ = ["STEPS", "Page", "SectionSize", "report"]
