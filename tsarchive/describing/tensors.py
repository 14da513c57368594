"""How many tensors a file has, as facts and in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from tsarchive.describing.facts import TensorFacts
from tsarchive.describing.text import plural, size

if TYPE_CHECKING:
    from tsarchive.archive import Archive
    from tsarchive.formats.torchscript.tensor_infos import TensorTotals


def tensor_facts(archive: Archive) -> TensorFacts:
    """Raises ArchiveError where the archive breaks a rule."""
    infos = archive.tensors.values()
    parameters = [info for info in infos if info.is_parameter]
    return TensorFacts(
        **asdict(archive.totals),
        parameters=len(parameters),
        parameter_elements=sum(info.elements for info in parameters),
        dtypes=dict(Counter(info.dtype for info in infos)),
        devices=dict(Counter(info.device for info in infos if info.device is not None)),
    )


def totals_text(totals: TensorTotals | TensorFacts) -> str:
    """``19 tensors in 5 storages, 654.6 KiB``"""
    storages = plural(totals.storages, "storage")
    return f"{plural(totals.count, 'tensor')} in {storages}, {size(totals.bytes)}"
