"""What a file can do, and when: read from its code, its pickles and its records."""

from tsarchive.auditing.files import audit
from tsarchive.scanning.report import AuditReport

__all__ = ["AuditReport", "audit"]
