"""Reporting: one self-contained HTML page about a file."""

from .page import STEPS, Page, SectionSize, report

__all__ = ["STEPS", "Page", "SectionSize", "report"]
