"""The example inputs that a model was exported with, described without unpickling."""

from __future__ import annotations

from tsarchive.errors import PickleError
from tsarchive.pickler import Object, Reduce, Value
from tsarchive.torchscript.stored_values import MAX_DEPTH, DenseTensor

from .records import Records
from .saved import Saved

__all__ = ["sample_inputs"]

_MOST_LETTERS = 10_000


def sample_inputs(records: Records, model: str) -> str | None:
    """``(float32[2, 4], scale=float)``: the types of the arguments, without their values.

    None where there are none. Raises PickleError for pickles that the restricted reader does not
    take, and FormatError and MissingRecordError where the record is damaged.
    """
    record = records.inputs_record(model)
    if not records.container.size(record):
        return None
    saved = Saved(records.container, record)
    match saved.root:
        case (tuple() | list() as args, dict() as kwargs):
            shown = [_shown(saved, value, 0) for value in args]
            shown += [f"{_key(key)}={_shown(saved, value, 0)}" for key, value in kwargs.items()]
            return _short(f"({', '.join(shown)})")
        case value:
            return _short(_shown(saved, value, 0))


def _shown(saved: Saved, value: Value, depth: int) -> str:
    """A value by its type: tensors with their shapes, containers with what is in them."""
    if depth > MAX_DEPTH:
        raise PickleError("values are nested too deeply", record=saved.record, limit=MAX_DEPTH)
    match value:
        case Reduce():
            return _call(saved, value)
        case Object(cls):
            return cls.qualified_name
        case tuple() | list():
            inside = ", ".join(_shown(saved, item, depth + 1) for item in value)
            return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
        case dict():
            pairs = ((_key(key), _shown(saved, item, depth + 1)) for key, item in value.items())
            return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
    return "None" if value is None else type(value).__name__


def _call(saved: Saved, value: Reduce) -> str:
    """A tensor by type and shape; another object by the function that makes it."""
    try:
        found = saved.tensor(value)
    except PickleError:
        return value.function.qualified_name
    if not isinstance(found, DenseTensor):
        return value.function.qualified_name
    return f"{found.view.storage.dtype}[{', '.join(map(str, found.view.size)) or '()'}]"


def _key(key: Value) -> str:
    return str(key) if isinstance(key, str | int | float) else type(key).__name__


def _short(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."
