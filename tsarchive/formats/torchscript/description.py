"""The facts of TorchScript archives, without torch and without running anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tsarchive.describing.contents import Facts, ProgramFacts
from tsarchive.describing.definitions import CLASS, FUNCTION, METHOD, definitions
from tsarchive.describing.text import advice
from tsarchive.formats.base import OpenedArchive
from tsarchive.formats.description import tensor_facts, zip_facts
from tsarchive.formats.records import RecordTable

from .inspection import class_finder, signatures
from .pickled import objects_of


def torchscript_facts(
    archive: OpenedArchive, file: str, nbytes: int, table: RecordTable, *, has_unnamed_classes: bool
) -> Facts:
    """Return the facts of a TorchScript archive. Raises ArchiveError.

    ``has_unnamed_classes`` tells that each module is of a class of its own, which no code names.
    """
    return replace(
        zip_facts(archive, file, nbytes, table),
        program=_program(archive, has_unnamed_classes=has_unnamed_classes),
        tensors=tensor_facts(archive),
    )


def _program(archive: OpenedArchive, *, has_unnamed_classes: bool) -> ProgramFacts:
    class_of = class_finder(archive.classes)
    objects = list(objects_of(archive.root))
    kinds: Counter[str] = Counter()
    for record, text in archive.code.items():
        kinds.update(found.kind for found in definitions(record, text))
    modules = sum(class_of(o).is_module for o in objects)
    if has_unnamed_classes:
        kinds[CLASS] += modules
    main_class = class_of(archive.root)
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
