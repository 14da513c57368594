"""Where archives are, and modules saved and loaded in memory by tsarchive and by torch."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import torch

import tsarchive

__all__ = [
    "ARCHIVES",
    "CORPUS",
    "FIXTURES",
    "ROOT",
    "TORCH",
    "comparable_records",
    "expected_records",
    "export_saved",
    "loaded",
    "records_of",
    "saved",
    "torch_loaded",
    "torch_pickled",
    "torch_saved",
]

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
ARCHIVES = FIXTURES / "archives"
CORPUS = ROOT.parent / "shared" / "corpus"
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
"""Major and minor version of the torch that is the oracle here."""


def saved(module: Any, **options: Any) -> bytes:
    """The archive that ``tsarchive.save`` writes."""
    buffer = io.BytesIO()
    tsarchive.save(module, buffer, **options)
    return buffer.getvalue()


def loaded(data: bytes, **options: Any) -> Any:
    """The module that ``tsarchive.load`` gives."""
    return tsarchive.load(io.BytesIO(data), **options)


def torch_saved(module: Any) -> bytes:
    """The archive that ``torch.jit.save`` writes."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def case_archive(case: Any) -> bytes:
    """The archive that torch makes of a case: scripting it takes longer than most tests of it."""
    data = _of_cases.get(case.name)
    if data is None:
        data = _of_cases[case.name] = torch_saved(case.build())
    torch.manual_seed(0)  # as in a test that makes it, whoever has made it before
    return data


_of_cases: dict[str, bytes] = {}


def torch_loaded(data: bytes) -> Any:
    """The module that ``torch.jit.load`` gives."""
    return torch.jit.load(io.BytesIO(data))


def torch_pickled(value: Any, **options: Any) -> bytes:
    """What ``torch.save`` writes."""
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def export_saved(program: Any, **options: Any) -> bytes:
    """The archive that ``torch.export.save`` writes."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer, **options)
    return buffer.getvalue()


def records_of(data: bytes) -> dict[str, bytes]:
    """Records by name without the root, in the order of the file, as zipfile reads them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _is_settled_in_second_save(name: str) -> bool:
    return name in ("data.pkl", "constants.pkl") or name.startswith(("data/", "constants/"))


def expected_records(module: Any) -> dict[str, bytes]:
    """The records that torch writes once it has read its own file, which change no more."""
    first = torch_saved(module)
    second = records_of(torch_saved(torch_loaded(first)))
    return {
        name: second[name] if _is_settled_in_second_save(name) else content
        for name, content in records_of(first).items()
    }


def comparable_records(records: dict[str, bytes]) -> dict[str, bytes]:
    """Debug records and the id, which hashes them, are compared elsewhere."""
    return {
        name: content
        for name, content in records.items()
        if not name.endswith(".debug_pkl") and name != ".data/serialization_id"
    }
