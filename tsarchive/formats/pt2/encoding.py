"""Encoding of classes of the schema to JSON as torch writes it; the inverse of ``decoding``."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from .schema import Tagged

Fields: TypeAlias = Mapping[str, Collection[str]]
"""Names of fields by the name of their class."""

_NONE: Final[Fields] = MappingProxyType({})


def write_json(value: Any, without: Fields = _NONE) -> bytes:
    """Encode an instance of a class of the schema as a record, omitting the fields ``without``."""
    return json.dumps(json_of(value, without), allow_nan=False).encode()


def json_of(value: Any, without: Fields = _NONE) -> Any:
    """Return the JSON value of an instance of a class of the schema, or of a field's value."""
    match value:
        case IntEnum():
            return int(value)
        case Tagged():
            return {value.tag: json_of(value.value, without)}
        case list():
            return [json_of(item, without) for item in value]
        case dict():
            return {key: json_of(item, without) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _ if is_dataclass(value):
            names = [field.name for field in fields(value)]
            if left_out := without.get(type(value).__name__):
                names = [name for name in names if name not in left_out]
            return {name: json_of(getattr(value, name), without) for name in names}
    return value
