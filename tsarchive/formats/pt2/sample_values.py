"""The example inputs of a model as values, without unpickling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsarchive.errors import PickleError
from tsarchive.formats.torchscript.stored_tensors import MAX_DEPTH
from tsarchive.pickler import Reduce, Value

from .payloads import StoredView, saved_payload
from .records import Records
from .tensors import Tensors
from .torch_save import Saved

Call = tuple[tuple[Any, ...], dict[str, Any]]


def sample_values(records: Records, model: str) -> Call | None:
    """Return positional and keyword arguments; None without example inputs, or with objects.

    Raises PickleError for pickles that the restricted reader does not take, TensorError for
    tensors that break a rule, FormatError and MissingRecordError for a damaged record.
    """
    record = records.inputs_record(model)
    if not records.container.size(record):
        return None
    saved = Saved(records.container, record)
    views = {id(value): saved_payload(saved, value) for value in _calls(saved.root, 0)}
    if not all(isinstance(view, StoredView) for view in views.values()):
        return None
    dense = {key: view for key, view in views.items() if isinstance(view, StoredView)}
    tensors = Tensors(dense.values(), None)
    match _plain(saved.root, {key: tensors.build(view) for key, view in dense.items()}):
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), kwargs
    return None


def _calls(value: Value, depth: int) -> Iterator[Reduce]:
    """Yield the tensors of a nested value."""
    if depth > MAX_DEPTH:
        raise PickleError("values are nested too deeply", limit=MAX_DEPTH)
    match value:
        case Reduce():
            yield value
        case tuple() | list():
            for item in value:
                yield from _calls(item, depth + 1)
        case dict():
            for item in value.values():
                yield from _calls(item, depth + 1)


def _plain(value: Value, tensors: dict[int, Any]) -> Any:
    match value:
        case Reduce():
            return tensors[id(value)]
        case tuple():
            return tuple(_plain(item, tensors) for item in value)
        case list():
            return [_plain(item, tensors) for item in value]
        case dict():
            return {key: _plain(item, tensors) for key, item in value.items()}
    return value
