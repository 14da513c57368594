"""Differences between two models or files, as a person would tell them.

May import formats, analyses, policies, and the verb of saving.
"""

from tsarchive.diffing.report import Change, DiffReport, MethodChange, OperatorUse, SourceLine

__all__ = ["Change", "DiffReport", "MethodChange", "OperatorUse", "SourceLine"]
