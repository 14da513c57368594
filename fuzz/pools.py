"""Small sound archives as seeds, and their pickles and code."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tsarchive
from tsarchive.testing.mutated_archive import small_archive

FIXTURES = Path(__file__).absolute().parents[1] / "fixtures"
sys.path.insert(0, str(FIXTURES.parent))

from fixtures.executorch_programs import RUNNING  # noqa: E402  # found by the line above

# Speed counts: small archives exercise the same code as large ones.
LARGEST_ARCHIVE = 6000
LARGEST_RECORD = 2500


@dataclass(frozen=True)
class PickleSeed:
    """A record, usually a pickle, and its archive."""

    archive: bytes
    record: str
    data: bytes


@dataclass(frozen=True)
class CodeSeed:
    """A code record and its archive."""

    archive: bytes
    record: str
    text: str


class Pool:
    """The seeds of all layers, read once."""

    @cached_property
    def archives(self) -> list[bytes]:
        """Archives of current and old torch versions, in a deterministic order."""
        paths = [
            path
            for folder in ("archives", "legacy", "old")
            for path in sorted((FIXTURES / folder).rglob("*.pt"))
            if not path.name.endswith(".io.pt") and path.stat().st_size < LARGEST_ARCHIVE
        ]
        return [small_archive(), *(path.read_bytes() for path in paths)]

    @cached_property
    def pickles(self) -> list[PickleSeed]:
        return [
            PickleSeed(data, name, content)
            for data, name, content in self._records()
            if name.endswith("pkl")
        ]

    @cached_property
    def code(self) -> list[CodeSeed]:
        """Code records that torch 1.3 or later wrote."""
        return [
            CodeSeed(data, name, content.decode())
            for data, name, content in self._records()
            if name.startswith("code/") and name.endswith(".py")
        ]

    @cached_property
    def exported(self) -> list[bytes]:
        """PT2 archives of every layout."""
        return [path.read_bytes() for path in sorted((FIXTURES / "pt2").glob("*.pt2"))]

    @cached_property
    def exported_records(self) -> list[PickleSeed]:
        """Their programs, configurations and pickled records."""
        seeds = []
        for data in self.exported:
            with tsarchive.open(io.BytesIO(data)) as archive:
                for name in archive.records:
                    if name.endswith((".json", ".pt")):
                        seeds.append(PickleSeed(data, name, archive.read(name)))
        return seeds

    @cached_property
    def executorch(self) -> list[bytes]:
        """Programs, data and bundles of ExecuTorch, and programs that compute something."""
        files = [path.read_bytes() for path in sorted((FIXTURES / "executorch").iterdir())]
        return files + [made() for made in RUNNING.values()]

    def _records(self) -> Iterator[tuple[bytes, str, bytes]]:
        for data in self.archives:
            with tsarchive.open(io.BytesIO(data)) as archive:
                if archive.kind != "torchscript":
                    continue
                for name, record in archive.records.items():
                    if record.size < LARGEST_RECORD:
                        yield data, name, archive.read(name)


POOL = Pool()
