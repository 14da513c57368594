"""Rows of surveys that tests make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tsarchive.describing.written import all_releases
from tsarchive.surveying.rows import FileRow, FindingRow

RELEASES = st.sampled_from(all_releases()[-4:])
NAMES = st.lists(st.sampled_from("abcdef"), max_size=4).map(tuple)
DIGESTS = st.none() | st.sampled_from(["d1", "d2", "d3", "tsf1:d4"])


def file(path: str, **columns) -> FileRow:
    return FileRow(**{"root": "models", "path": path, "status": "read", **columns})


def finding(path: str, **columns) -> FindingRow:
    given = {
        "root": "models", "path": path, "verb": "audit", "rule": "pickle-call",
        "severity": "error", "nature": "hostile", "message": "calls os.system",
    }  # fmt: skip
    return FindingRow(**{**given, **columns})


@dataclass
class Rows:
    """What a dataset gives, from lists."""

    of_files: Sequence[FileRow]
    of_findings: Sequence[FindingRow] = ()

    def files(self):
        return iter(self.of_files)

    def findings(self):
        return iter(self.of_findings)


FILES = st.lists(
    st.builds(
        FileRow,
        root=st.sampled_from(["", "models", "s3://bucket"]),
        path=st.text(st.characters(exclude_categories=()), min_size=1, max_size=3),
        status=st.sampled_from(["read", "foreign", "refused", "failed", "crashed", "timeout"]),
        nbytes=st.none() | st.integers(0, 2**41),
        problem=st.sampled_from(["", "it is cut short"]),
        kind=st.none() | st.sampled_from(["torchscript", "pt2"]),
        sha256=DIGESTS,
        model=DIGESTS,
        operators=NAMES,
        effects=NAMES,
        libraries=NAMES,
        dtypes=NAMES,
        devices=NAMES,
        errors=st.integers(0, 2),
        warnings=st.integers(0, 2),
        torch_first=st.none() | RELEASES,
        torch_last=st.none() | RELEASES,
        loads_on=st.lists(RELEASES, unique=True).map(tuple),
        runs_on=st.lists(RELEASES, unique=True).map(tuple),
    ),
    max_size=12,
    unique_by=lambda row: (row.root, row.path),
)
