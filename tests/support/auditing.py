"""Small files to audit: TorchScript archives with given code, and zip archives of any records."""

from __future__ import annotations

import io
import zipfile

from tsarchive import audit
from tsarchive.auditing import AuditReport

CALL = b"cos\nsystem\n(S'true'\ntR."  # a pickle that runs a command
_VERSION = b"3\n"
_NO_CONSTANTS = b"\x80\x02)."


def object_of(name: str, *, module: str = "__torch__") -> bytes:
    """A pickle of one object of an archive's class, without attributes."""
    return b"\x80\x02c%s\n%s\n)\x81}b." % (module.encode(), name.encode())


def zip_of(records: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in records.items():
            archive.writestr(f"m/{name}", data)
    return buffer.getvalue()


def archive_with(code: str, *, data: bytes | None = None, **more: bytes) -> bytes:
    """A TorchScript archive with one code record; its object is of the class ``Net``."""
    records = {
        "data.pkl": object_of("Net") if data is None else data,
        "code/__torch__.py": code.encode(),
        "constants.pkl": _NO_CONSTANTS,
        "version": _VERSION,
        **more,
    }
    return zip_of(records)


def audited(data: bytes) -> AuditReport:
    return audit(io.BytesIO(data))


def audited_code(code: str) -> AuditReport:
    return audited(archive_with(code))


def rules_of(report: AuditReport) -> set[str]:
    return {finding.rule for finding in report.findings}
