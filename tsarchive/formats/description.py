"""The facts that archives of all formats have, without torch and without running anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict

from tsarchive.container import Record
from tsarchive.describing.contents import Facts, GroupFacts, TensorFacts
from tsarchive.describing.text import method_name
from tsarchive.errors import MissingRecordError

from .base import OpenedArchive
from .records import GROUPS, RecordTable


def zip_facts(archive: OpenedArchive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """Describe a zip archive of any kind, from a file of this name and size."""
    records = archive.records.values()
    version = None
    with suppress(MissingRecordError):
        version = archive.format_version
    return Facts(
        file=file,
        bytes=nbytes,
        kind=archive.kind,
        format_version=version,
        root=archive.container.root,
        byte_order=_text(archive, "byteorder"),
        serialization_id=_text(archive, ".data/serialization_id"),
        compression=dict(Counter(method_name(record.method) for record in records)),
        groups=_groups(records, table),
        program=None,
        exported=None,
        tensors=None,
    )


def _text(archive: OpenedArchive, name: str) -> str | None:
    if name not in archive.records:
        return None
    return archive.read(name).decode("ascii", "backslashreplace").strip()


def _groups(records: Iterable[Record], table: RecordTable) -> dict[str, GroupFacts]:
    groups = {name: GroupFacts() for name in GROUPS}
    for record in records:
        groups[table.role(record.name).described].add(record.size, record.stored_size)
    return {name: group for name, group in groups.items() if group.records}


def tensor_facts(archive: OpenedArchive) -> TensorFacts:
    """Count the tensors of an archive. Raises ArchiveError where it breaks a rule."""
    infos = archive.tensors.values()
    parameters = [info for info in infos if info.is_parameter]
    return TensorFacts(
        **asdict(archive.totals),
        parameters=len(parameters),
        parameter_elements=sum(info.elements for info in parameters),
        dtypes=dict(Counter(info.dtype for info in infos)),
        devices=dict(Counter(info.device for info in infos if info.device is not None)),
    )
