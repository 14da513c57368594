"""Reporting: one self-contained HTML page about a file.

May import what looks at files: formats, verifying and auditing; not what loads or runs them.
"""

from .page import STEPS, Page, SectionSize, report

__all__ = ["STEPS", "Page", "SectionSize", "report"]
