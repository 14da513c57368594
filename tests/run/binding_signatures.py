"""The signatures that the parser of a Python binding of torch knows, as it tells them in errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Parameter", "Signature", "signatures_of"]

_TOO_MANY = 60
_PART = re.compile(r"(?P<type>.+?) (?P<name>\w+)(?: = (?P<default>.+))?")
_COUNT = re.compile(r"takes (?:from (\d+) to )?(\d+|no|exactly one) (?:positional )?argument")
_WANTED = re.compile(r"argument '(\w+)'(?: \(position \d+\))? must be (.+), not object")
_WORDS = {"no": 0, "exactly one": 1}
_FITTING: dict[str, Any] = {
    "Tensor": torch.ones(1),
    "int": 1,
    "float": 1.0,
    "bool": True,
    "Number": 1,
    "str": "",
    "tuple of ints": (1,),
    "tuple of floats": (1.0,),
    "tuple of bools": (True,),
    "tuple of Tensors": (torch.ones(1),),
    "torch.dtype": torch.float32,
    "torch.layout": torch.strided,
    "torch.memory_format": torch.contiguous_format,
    "torch.device": torch.device("cpu"),
    "torch.Generator": torch.default_generator,
}


@dataclass(frozen=True)
class Parameter:
    """``default`` is its text; "..." where the parser does not tell it."""

    name: str
    type: str
    default: str | None = None


@dataclass(frozen=True)
class Signature:
    """Parameters that may be given by position, and those by name only."""

    positional: tuple[Parameter, ...]
    named: tuple[Parameter, ...] = ()


def signatures_of(binding: Callable[..., Any], names: list[str]) -> list[Signature]:
    """The signatures in the order in which they are tried; ``self`` of methods stands in front.

    ``names`` are those of parameters that may be given by name only.
    """
    is_method = type(binding).__name__ == "method_descriptor"
    first = (Parameter("self", "Tensor"),) if is_method else ()
    given = (torch.ones(1),) * len(first)
    message = _error(binding, *given, *[None] * _TOO_MANY)
    _, several, listed = message.partition("but expected")
    if several:
        found = [_listed(text) for text in re.findall(r"\((.*)\)$", listed, re.MULTILINE)]
    else:
        found = [_asked(binding, given, message, names)]
    return [Signature((*first, *one.positional), one.named) for one in found]


def _error(binding: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    try:
        binding(*arguments, **keywords)
    except TypeError as error:
        return str(error)
    raise AssertionError(f"{binding} took {arguments} and {keywords}")


def _listed(text: str) -> Signature:
    positional: list[Parameter] = []
    named: list[Parameter] = []
    into = positional
    for part in re.split(r", (?![^()\[\]]*[\])])", text) if text else ():
        if part == "*":
            into = named
            continue
        match = _PART.fullmatch(part)
        assert match is not None, part
        into.append(Parameter(match["name"], match["type"], match["default"]))
    return Signature(tuple(positional), tuple(named))


def _asked(
    binding: Callable[..., Any], given: tuple[Any, ...], message: str, names: list[str]
) -> Signature:
    """The only signature, parameter by parameter."""
    match = _COUNT.search(message)
    assert match is not None, message
    most = _WORDS[match[2]] if match[2] in _WORDS else int(match[2])
    least = most if match[1] is None else int(match[1])
    positional: list[Parameter] = []
    values = list(given)
    for position in range(most):
        name, type_ = _wanted(_error(binding, *values, object()))
        positional.append(Parameter(name, type_, None if position < least else "..."))
        values.append(_FITTING[type_])
    named = []
    keywords: dict[str, Any] = {}
    for name in names:
        answer = _error(binding, *values, **keywords, **{name: object()})
        if "unexpected keyword" not in answer and "takes no keyword" not in answer:
            named.append(Parameter(name, _wanted(answer)[1], "..."))
            keywords[name] = _FITTING[named[-1].type]
    return Signature(tuple(positional), tuple(named))


def _wanted(message: str) -> tuple[str, str]:
    match = _WANTED.search(message)
    assert match is not None, message
    return match[1], match[2]
