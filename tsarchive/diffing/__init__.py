"""Differences between two models or files, as a person would tell them.

May import analyses, the container, descriptions, fingerprints, formats and their registry, the IR,
the table of operators, and policies.
"""

from tsarchive.diffing.comparison import diff
from tsarchive.diffing.report import (
    Change,
    DiffReport,
    Divergence,
    MethodChange,
    OperatorUse,
    SideBySide,
    SourceLine,
    ValueDifference,
)

__all__ = [
    "Change",
    "DiffReport",
    "Divergence",
    "MethodChange",
    "OperatorUse",
    "SideBySide",
    "SourceLine",
    "ValueDifference",
    "diff",
]
