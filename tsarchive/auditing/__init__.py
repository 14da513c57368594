"""Auditing: the abilities of a file, read from its code, its pickles and its records.

May import scanners, analyses and formats.
"""

from tsarchive.auditing.files import audit
from tsarchive.scanning.report import AuditReport

__all__ = ["AuditReport", "audit"]
