"""A description of the example inputs of a model, without unpickling."""

from __future__ import annotations

from tsarchive.errors import PickleError
from tsarchive.formats.torchscript.stored_tensors import MAX_DEPTH, DenseTensor
from tsarchive.pickler import Object, Reduce, Value

from .records import Records
from .torch_save import Saved

_MOST_LETTERS = 10_000


def sample_inputs(records: Records, model: str) -> str | None:
    """Return the types of the arguments: ``(float32[2, 4], scale=float)``.

    None where there are none. Raises PickleError for pickles that the restricted reader refuses,
    and FormatError and MissingRecordError where the record is damaged.
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
    """Return a value's type as text: shapes of tensors, items of containers."""
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
    """Return a tensor as type and shape; another object as the function that makes it."""
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
