"""Decoding of JSON to the typed classes of the schema, and their encoding as torch writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from tsarchive.errors import FormatError
from tsarchive.strict_json import parse_object

from .schema import Tagged

# Levels of lists and objects. A nested graph takes seven, and few models nest more than two.
MAX_DEPTH = 256

Schema = TypeVar("Schema")
Decode = Callable[[Any], Any]

_SPECIAL_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_SHOWN = 60
# The union member for None. Before schema 8 its value was an empty tuple.
_NOTHING = "as_none"


class _Mismatch(Exception):
    """A value of the wrong type; ``path`` grows while the error propagates."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []

    def inside(self, step: str) -> _Mismatch:
        self.path.append(step)
        return self


def read_json(schema: type[Schema], data: bytes, record: str) -> Schema:
    """Decode a JSON record to an instance of a class of the schema.

    Raises FormatError, naming the field, where the record breaks a rule.
    """
    return decoded(schema, parse_json(data, record), record)


def parse_json(data: bytes, record: str) -> dict[str, Any]:
    """Parse the JSON of a record, with a limit on nesting for recursive readers."""
    return parse_object(data, record, MAX_DEPTH)


def decoded(schema: type[Schema], value: Any, record: str) -> Schema:
    """Decode parsed JSON to an instance of a class of the schema. Raises FormatError."""
    hint: Any = schema
    try:
        found: Schema = _decoder(hint)(value)
    except _Mismatch as error:
        path = "".join(reversed(error.path)).removeprefix(".")
        raise FormatError(f"{path or 'the record'} {error}", record=record) from None
    return found


@cache
def _decoder(hint: Any) -> Decode:
    """Return a decoder of JSON values to the type ``hint``."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        return _list_of(_decoder(arguments[0]))
    if origin is dict:
        return _dict_of(_decoder(arguments[1]))
    if origin is UnionType:
        (element,) = (argument for argument in arguments if argument is not NoneType)
        decode = _decoder(element)
        return lambda value: None if value is None else decode(value)
    if issubclass(hint, IntEnum):
        return _enumeration(hint)
    if issubclass(hint, Tagged):
        return _union(hint)
    assert is_dataclass(hint)
    return _message(hint)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Mismatch(f"is {_shown(value)}, not true or false")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise _Mismatch(f"is {_shown(value)}, not an integer of 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            pass
    elif isinstance(value, str) and value in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[value]
    raise _Mismatch(f"is {_shown(value)}, not a number")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Mismatch(f"is {_shown(value)}, not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Mismatch("has half a surrogate pair") from None
    return value


_PLAIN: dict[Any, Decode] = {bool: _boolean, int: _integer, float: _number, str: _text}


def _list_of(decode: Decode) -> Decode:
    def decode_list(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Mismatch(f"is {_shown(value)}, not a list")
        found: list[Any] = []
        try:
            for item in value:
                found.append(decode(item))
        except _Mismatch as error:
            raise error.inside(f"[{len(found)}]") from None
        return found

    return decode_list


def _dict_of(decode: Decode) -> Decode:
    def decode_dict(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _Mismatch(f"is {_shown(value)}, not an object")
        found = {}
        for key, item in value.items():
            try:
                found[_text(key)] = decode(item)
            except _Mismatch as error:
                raise error.inside(f".{_shown(key)}") from None
        return found

    return decode_dict


def _enumeration(kind: type[IntEnum]) -> Decode:
    by_number = {int(member): member for member in kind}

    def decode_member(value: Any) -> IntEnum:
        found = by_number.get(_integer(value))
        if found is None:
            raise _Mismatch(f"is {value}, which is no {kind.__name__}")
        return found

    return decode_member


def _union(kind: type[Tagged]) -> Decode:
    def decode_union(value: Any) -> Tagged:
        if type(value) is not dict or len(value) != 1:
            raise _Mismatch(f"is {_shown(value)}, not an object with one field")
        ((tag, content),) = value.items()
        if tag == _NOTHING and content == []:
            content = True
        if tag not in kind.members:
            raise _Mismatch(f"is {_shown(tag)}, which is no {kind.__name__}")
        try:
            return kind(tag, _decoder(kind.members[tag])(content))
        except _Mismatch as error:
            raise error.inside(f".{tag}") from None

    return decode_union


def _message(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    members = [(field.name, _late(hints[field.name]), _default(field)) for field in fields(kind)]

    def decode_message(value: Any) -> Any:
        if type(value) is not dict:
            raise _Mismatch(f"is {_shown(value)}, not an object")
        found = []
        for name, decode, default in members:
            if name in value:
                try:
                    found.append(decode(value[name]))
                except _Mismatch as error:
                    raise error.inside(f".{name}") from None
            elif default is None:
                raise _Mismatch("is missing").inside(f".{name}")
            else:
                found.append(default())
        return kind(*found)

    return decode_message


def _late(hint: Any) -> Decode:
    """Find the decoder of a class on first use, since classes of the schema are recursive."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    return lambda value: _decoder(hint)(value)


def _default(field: Field[Any]) -> Callable[[], Any] | None:
    """Return a factory for the value of an absent field; None where it is required."""
    if field.default_factory is not MISSING:
        return field.default_factory
    if field.default is not MISSING:
        return lambda: field.default
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


Fields: TypeAlias = Mapping[str, Collection[str]]
"""Names of fields by the name of their class."""

_NONE: Final[Fields] = {}


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
