"""Machine code in an archive: what AOTInductor compiled, for which machine. It is never loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tsarchive.strict_json import parse_object

from .records import AOTINDUCTOR, Records

__all__ = ["Compiled", "compiled"]

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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
