"""The facts of zip archives, without torch and without running anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tsarchive.archive import Archive
from tsarchive.container import Record
from tsarchive.describing.advice import advice
from tsarchive.describing.definitions import CLASS, FUNCTION, METHOD, definitions
from tsarchive.describing.facts import (
    Facts,
    GroupFacts,
    ProgramFacts,
)
from tsarchive.describing.signatures import signatures
from tsarchive.describing.tensors import tensor_facts
from tsarchive.describing.text import method_name
from tsarchive.errors import MissingRecordError
from tsarchive.formats.records import GROUPS, RecordTable
from tsarchive.formats.torchscript.pickled import objects_of


def zip_facts(archive: Archive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """What there is to say of any zip archive from a file of this name and size."""
    records = archive.records.values()
    return Facts(
        file=file,
        bytes=nbytes,
        kind=archive.kind,
        format_version=_version(archive),
        root=archive.container.root,
        byte_order=_text(archive, "byteorder"),
        serialization_id=_text(archive, ".data/serialization_id"),
        compression=dict(Counter(method_name(record.method) for record in records)),
        groups=_groups(records, table),
        program=None,
        exported=None,
        tensors=None,
    )


def torchscript_facts(
    archive: Archive, file: str, nbytes: int, table: RecordTable, *, has_unnamed_classes: bool
) -> Facts:
    """Everything about a TorchScript archive. Raises ArchiveError.

    ``has_unnamed_classes`` tells that each module is of a class of its own, which no code names.
    """
    return replace(
        zip_facts(archive, file, nbytes, table),
        program=_program(archive, has_unnamed_classes=has_unnamed_classes),
        tensors=tensor_facts(archive),
    )


def _version(archive: Archive) -> int | None:
    try:
        return archive.format_version
    except MissingRecordError:
        return None


def _text(archive: Archive, name: str) -> str | None:
    if name not in archive.records:
        return None
    return archive.read(name).decode("ascii", "backslashreplace").strip()


def _groups(records: Iterable[Record], table: RecordTable) -> dict[str, GroupFacts]:
    members: dict[str, list[Record]] = {name: [] for name in GROUPS}
    for record in records:
        members[table.role(record.name).described].append(record)
    return {
        name: GroupFacts(
            len(found),
            sum(record.size for record in found),
            sum(record.stored_size for record in found),
        )
        for name, found in members.items()
        if found
    }


def _program(archive: Archive, *, has_unnamed_classes: bool) -> ProgramFacts:
    objects = list(objects_of(archive.root))
    kinds: Counter[str] = Counter()
    for record, text in archive.code.items():
        kinds.update(found.kind for found in definitions(record, text))
    modules = sum(archive.class_of(o).is_module for o in objects)
    if has_unnamed_classes:
        kinds[CLASS] += modules
    main_class = archive.class_of(archive.root)
    return ProgramFacts(
        main_class=main_class.qualified_name,
        has_traced_inputs="traced_inputs.pkl" in archive.records,
        modules=modules,
        classes=kinds[CLASS],
        methods=kinds[METHOD],
        functions=kinds[FUNCTION],
        signatures=tuple(signatures(main_class)),
        native_classes=archive.needs.classes,
        operators=archive.needs.operators,
        needs={name: advice(name) for name in archive.needs.foreign},
    )
