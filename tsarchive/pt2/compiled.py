"""Machine code in an archive: what AOTInductor compiled, for which machine. It is never loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tsarchive.errors import FormatError
from tsarchive.strict_json import parse_object

from .records import AOTINDUCTOR, WEIGHTS, Records

__all__ = ["Compiled", "compiled", "weight_records"]

_METADATA = "_metadata.json"
_WEIGHTS = "weights_config.json"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled model. ``files`` are its files with their bytes; ``metadata`` is what they say
    of the machine and the device, ``weights`` how many weights are stored beside the code."""

    name: str
    files: Mapping[str, int]
    metadata: Mapping[str, str]
    weights: int


def compiled(records: Records, model: str) -> Compiled:
    """What there is of a model that AOTInductor compiled. Raises FormatError for its JSON."""
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


def weight_records(records: Records, record: str) -> frozenset[str]:
    """The records that a JSON record beside compiled code names as weights: files of torch.save.

    Raises FormatError for what is not JSON, or describes weights in another way.
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
    """A string or number as it is; of anything else what it is."""
    return str(value) if isinstance(value, str | int | float) else type(value).__name__
