"""Machine code of AOTInductor in an archive, and its target machine. It is never loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tsarchive.describing.facts import Compiled
from tsarchive.errors import FormatError
from tsarchive.formats.torchscript.stored_tensors import MAX_BYTES, MAX_RANK
from tsarchive.strict_json import parse_object

from .dtypes import DTYPES
from .payloads import Payload, StoredView, check_bounds, saved_payload
from .records import AOTINDUCTOR, WEIGHTS, Records
from .torch_save import Saved

_METADATA = "_metadata.json"
_WEIGHTS = "weights_config.json"


def compiled(records: Records, model: str) -> Compiled:
    """Return a model compiled by AOTInductor. Raises FormatError for malformed JSON."""
    folder = f"{AOTINDUCTOR}{model}/"
    names = list(records.under(folder))
    metadata: dict[str, str] = {}
    weights = 0
    for name in names:
        if name.endswith(_METADATA):
            values = parse_object(records.container.read(name), name)
            metadata |= {key: _text(value) for key, value in values.items()}
        elif name == f"{folder}{_WEIGHTS}":
            weights = len(parse_object(records.container.read(name), name))
    files = {name.removeprefix(folder): records.container.records[name].size for name in names}
    return Compiled(model, files, metadata, weights)


def stored_weights(records: Records, model: str) -> dict[str, Payload]:
    """Return the weights stored beside the code by name; none where the code contains them.

    Raises MissingRecordError where a record is missing, FormatError for JSON of another form and
    for a weight that reaches beyond its record, PickleError for a malformed file of torch.save.
    """
    record = f"{AOTINDUCTOR}{model}/{_WEIGHTS}"
    if not records.has(record):
        return {}
    described = parse_object(records.container.read(record), record)
    return {name: _weight(records, record, name, values) for name, values in described.items()}


def _weight(records: Records, record: str, name: str, described: Any) -> Payload:
    match described:
        case [str(file), [*shape], [*strides], offset] if _are_sizes(*shape, *strides, offset):
            saved = Saved(records.container, f"{WEIGHTS}{file}")
            whole = saved_payload(saved, saved.root)
        case _:
            message = f"the weight {name[:100]!r} is not a file, shape, strides and an offset"
            raise FormatError(message, record=record)
    if not isinstance(whole, StoredView):
        return whole
    itemsize = DTYPES[whole.dtype].itemsize
    try:
        check_bounds(tuple(shape), tuple(strides), offset, whole.storage.nbytes, itemsize)
    except FormatError as error:
        raise FormatError(f"{name[:100]!r}: {error.message}", record=record) from None
    return replace(whole, shape=tuple(shape), strides=tuple(strides), offset=offset)


def _are_sizes(*numbers: Any) -> bool:
    return len(numbers) <= 2 * MAX_RANK + 1 and all(
        type(number) is int and 0 <= number <= MAX_BYTES for number in numbers
    )


def weight_records(records: Records, record: str) -> frozenset[str]:
    """Return the torch.save records that a JSON record beside compiled code names as weights.

    Raises FormatError if it is not JSON, or describes weights in another way.
    """
    values = parse_object(records.container.read(record), record)
    if not record.endswith(f"/{_WEIGHTS}"):
        return frozenset()
    found = set()
    for name, described in values.items():
        match described:
            case [str(file), *_]:
                found.add(f"{WEIGHTS}{file}")
            case _:
                raise FormatError(f"the weight {name[:100]!r} has no file", record=record)
    return frozenset(found)


def _text(value: Any) -> str:
    """Return a string or number as text; of any other value, its type."""
    return str(value) if isinstance(value, str | int | float) else type(value).__name__
