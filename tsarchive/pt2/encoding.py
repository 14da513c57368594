"""From classes of the schema to JSON, as torch writes it: the way back of ``decoding``."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

from .schema import Tagged

__all__ = ["json_of", "write_json"]


def write_json(value: Any) -> bytes:
    """The record of an instance of a class of the schema."""
    return json.dumps(json_of(value), allow_nan=False).encode()


def json_of(value: Any) -> Any:
    """The JSON value for an instance of a class of the schema, or for what its fields hold."""
    match value:
        case IntEnum():
            return int(value)
        case Tagged():
            return {value.tag: json_of(value.value)}
        case list():
            return [json_of(item) for item in value]
        case dict():
            return {key: json_of(item) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _ if is_dataclass(value):
            return {field.name: json_of(getattr(value, field.name)) for field in fields(value)}
    return value
