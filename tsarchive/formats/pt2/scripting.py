"""Conversion of a loaded program to the records of a TorchScript archive.

TorchScript's ``view`` takes only sizes, so views as another dtype become copies, which are
equivalent as long as neither the view nor its base is written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

from tsarchive.container import NewRecord
from tsarchive.errors import UnsupportedError
from tsarchive.formats.torchscript.saving import canonical_loaded_records, extra_files
from tsarchive.ir.graph import Block, Node, walk
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import ANY, COMPOSITE, DictType, ListType, TupleType, Type
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.operators import operator_schemas
from tsarchive.run.passes.alias_analysis import Aliases

from .exporter import forward_of
from .program import Forward
from .pytrees import Kind
from .records import Records
from .signature import TypedTree

_VIEW, _OVERLOAD = "aten::view", "dtype"
_COPY = "aten::view_copy"


@contextmanager
def retyped_views_copied(graph: Block) -> Iterator[None]:
    """Have copies in the place of such views, and the graph as it was afterwards.

    Raises UnsupportedError where a view or its base may be written to after the view is made.
    """
    before: list[tuple[Node, str, FunctionSchema | None, Sequence[str]]] = []
    try:
        # Each becomes a copy before the next is looked for: a copy shares nothing with its base.
        for node in _copyable(graph):
            before.append((node, node.kind, node.schema, node.lost))
            schemas = operator_schemas(_COPY)
            node.kind, node.lost = _COPY, ()
            node.schema = next(schema for schema in schemas if schema.overload == _OVERLOAD)
        yield
    finally:
        for node, kind, schema, lost in before:
            node.kind, node.schema, node.lost = kind, schema, lost


def _copyable(graph: Block) -> Iterator[Node]:
    for index, top in enumerate(graph.nodes):
        for node in walk([top]):
            overload = None if node.schema is None else node.schema.overload
            if (node.kind, overload) != (_VIEW, _OVERLOAD):
                continue
            aliases = Aliases(graph)
            seen = aliases.places(node.output)
            # In a loop, everything beside a view also runs after it.
            if any(seen & aliases.written(later) for later in walk(graph.nodes[index:])):
                raise UnsupportedError(
                    "the program has no form in TorchScript: it writes to a tensor of which it "
                    "has a view of another dtype",
                    hint="Write to a clone of it in the model, and export that",
                )
            yield node


# Implemented by torch in Python, so a process without it, such as one of libtorch, lacks them.
_IN_PYTHON: Final[Mapping[str, str]] = {
    "prims": "Export it again without decompositions, or with those of torch's default",
    "torch_nn": "Export a model that computes the loss without chunks",
}


def scripted_records(module: ArchiveModule) -> list[NewRecord]:
    """Return every record except the serialization id, in canonical form; extra files are kept.

    Debug records name the lines of user source from the program's metadata.

    Raises UnsupportedError for arguments and results that TorchScript has no values for, or whose
    type torch.jit cannot infer, and for operators written in Python; SaveError for a part of a
    program.
    """
    forward = forward_of(module)
    for parameter, typed in zip(forward.signature.parameters, forward.parameters, strict=True):
        _require_values(forward, typed, f"the argument {parameter.name}")
        _require_known_types(forward, typed, f"the argument {parameter.name}", is_item=False)
    _require_values(forward, forward.result, "the result")
    graph = forward.module.type.methods["forward"].graph
    for node in walk(graph.nodes):
        name = "" if node.schema is None else node.schema.full_name
        if hint := _IN_PYTHON.get(name.partition("::")[0]):
            message = f"the program has no form in TorchScript: {name} is written in Python"
            raise UnsupportedError(message, record=forward.record, hint=hint)
    records = Records(module.tsarchive_classes.container)
    files = {name: records.container.read(one) for name, one in records.extra_files().items()}
    with retyped_views_copied(graph):
        return canonical_loaded_records(module, extra_files(files), debug=True)


def _require_values(forward: Forward, typed: TypedTree, place: str) -> None:
    """Refuse objects of classes that torch's pytrees know and TorchScript does not."""
    if typed.tree.kind is Kind.REGISTERED:
        _refuse(forward, f"{place} is an object of {typed.tree.name}, which has no type there")
    if isinstance(typed.type, TupleType) and typed.type.qualified_name and _holds_any(typed.type):
        message = f"{place} is a named tuple with a field that has items of several types"
        _refuse(forward, message)
    for step, child in typed.places(place):
        _require_values(forward, child, step)


def _holds_any(type_: Type) -> bool:
    return type_ == ANY or (isinstance(type_, COMPOSITE) and any(map(_holds_any, type_.parts())))


def _require_known_types(forward: Forward, typed: TypedTree, place: str, *, is_item: bool) -> None:
    """Refuse heterogeneous lists and dicts among items of several types.

    Such items are of the type Any; torch.jit infers the type of an item, and fails for a container
    that is empty or itself heterogeneous.
    """
    items = None
    if isinstance(typed.type, ListType | DictType):
        items = typed.type.element if isinstance(typed.type, ListType) else typed.type.value
    if is_item and items is not None and (items == ANY or not typed.children):
        has = "items of several types" if typed.children else "no items"
        among = "and is itself among items of several types"
        _refuse(forward, f"{place} is {typed.tree.kind.value} that has {has}, {among}")
    for step, child in typed.places(place):
        _require_known_types(forward, child, step, is_item=is_item or items == ANY)


def _refuse(forward: Forward, message: str) -> NoReturn:
    raise UnsupportedError(
        f"the program has no form in TorchScript: {message}",
        record=forward.record,
        hint="Export a forward that takes and gives tuples in its place",
    )
