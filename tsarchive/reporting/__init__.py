"""Reporting: one self-contained HTML page about a file."""

from .writing import STEPS, Page, SectionSize, report

__all__ = ["STEPS", "Page", "SectionSize", "report"]
