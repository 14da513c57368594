"""Facts collected from a file without torch and without running anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tsarchive.archive import Archive
from tsarchive.container import Record
from tsarchive.describing.advice import advice
from tsarchive.describing.definitions import CLASS, FUNCTION, METHOD, definitions
from tsarchive.describing.facts import (
    ExportedFacts,
    Facts,
    GroupFacts,
    ProgramFacts,
)
from tsarchive.describing.records import GROUPS, group_of, method_name
from tsarchive.describing.signatures import signatures
from tsarchive.describing.tensors import tensor_facts
from tsarchive.errors import MissingRecordError
from tsarchive.kinds import EXECUTORCH, LEGACY_TORCHSCRIPT, PT2, TORCHSCRIPT
from tsarchive.torchscript.pickled import objects_of

__all__ = ["facts_of"]


def facts_of(archive: Archive, file: str, nbytes: int) -> Facts:
    """Everything about an archive from a file of this name and size. Raises ArchiveError."""
    if archive.kind in EXECUTORCH:
        from tsarchive.describing.executorch_facts import executorch_facts

        return executorch_facts(archive, file, nbytes)
    records = archive.records.values()
    is_torchscript = archive.kind in (TORCHSCRIPT, LEGACY_TORCHSCRIPT)
    return Facts(
        file=file,
        bytes=nbytes,
        kind=archive.kind,
        format_version=_version(archive),
        root=archive.container.root,
        byte_order=_text(archive, "byteorder"),
        serialization_id=_text(archive, ".data/serialization_id"),
        compression=dict(Counter(method_name(record.method) for record in records)),
        groups=_groups(records),
        program=_program(archive) if is_torchscript else None,
        exported=_exported(archive) if archive.kind == PT2 else None,
        tensors=tensor_facts(archive) if is_torchscript or _has_stored(archive) else None,
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


def _groups(records: Iterable[Record]) -> dict[str, GroupFacts]:
    members: dict[str, list[Record]] = {name: [] for name in GROUPS}
    for record in records:
        members[group_of(record.name)].append(record)
    return {
        name: GroupFacts(
            len(found),
            sum(record.size for record in found),
            sum(record.stored_size for record in found),
        )
        for name, found in members.items()
        if found
    }


def _program(archive: Archive) -> ProgramFacts:
    objects = list(objects_of(archive.root))
    kinds: Counter[str] = Counter()
    for record, text in archive.code.items():
        kinds.update(found.kind for found in definitions(record, text))
    modules = sum(archive.class_of(o).is_module for o in objects)
    if archive.kind == LEGACY_TORCHSCRIPT:
        kinds[CLASS] += modules  # each is of a class of its own, which no code names
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


def _has_stored(archive: Archive) -> bool:
    """Whether it is a PT2 archive with a program, or with weights beside compiled code."""
    if archive.kind != PT2:
        return False
    return bool(archive.exported.models or archive.exported.beside_code())


def _exported(archive: Archive) -> ExportedFacts:
    from tsarchive.describing.exported_facts import exported_facts

    return exported_facts(archive)
