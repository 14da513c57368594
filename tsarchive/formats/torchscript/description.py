"""The facts of TorchScript archives and the signatures of their methods, without torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tsarchive.describing.definitions import CLASS, FUNCTION, METHOD, definitions
from tsarchive.describing.facts import Facts, ProgramFacts
from tsarchive.describing.hints import advice
from tsarchive.errors import UnknownOperatorError, UnsupportedError
from tsarchive.formats.archive import OpenedArchive
from tsarchive.formats.description import tensor_facts, zip_facts
from tsarchive.formats.records import RecordTable
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.schema import Argument
from tsarchive.ir.types import annotation

from .inspection import class_finder
from .pickled import objects_of

if TYPE_CHECKING:
    from tsarchive.describing.facts import ModuleInfo
    from tsarchive.frontend import CodeImporter


def torchscript_facts(
    archive: OpenedArchive, file: str, nbytes: int, table: RecordTable, *, has_unnamed_classes: bool
) -> Facts:
    """Everything about a TorchScript archive. Raises ArchiveError.

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


def signatures(class_: ClassType) -> Iterator[str]:
    """``forward(x: Tensor, scale: float=1.0) -> Tensor`` for each method, without self."""
    for name, method in class_.methods.items():
        yield f"{name}{_signature(method)}"


def with_signatures(module: ModuleInfo, classes: CodeImporter) -> ModuleInfo:
    """A module tree with the signature of each method in place of its name."""
    class_ = classes.find_class(module.qualified_class)
    assert isinstance(class_, ClassType)
    children = tuple(with_signatures(child, classes) for child in module.children)
    return replace(module, methods=tuple(signatures(class_)), children=children)


def _signature(method: Function) -> str:
    try:
        schema = method.schema
    except (UnknownOperatorError, UnsupportedError):
        # Only operators would tell the type of its result, or a constant that of a default.
        return "(...)"
    arguments = ", ".join(map(_argument, schema.arguments[1:]))
    return f"({arguments}) -> {annotation(schema.return_type)}"


def _argument(argument: Argument) -> str:
    text = f"{argument.name}: {annotation(argument.type)}"
    if not argument.has_default:
        return text
    is_plain = argument.default is None or isinstance(argument.default, bool | int | float | str)
    return f"{text}={argument.default!r}" if is_plain else f"{text}=..."
