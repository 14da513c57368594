"""The signatures that a Python binding of torch tries, as its parser tells them in errors.

A binding that is given too many arguments names all of its signatures in the order in which it
tries them. One that has a single signature names the arguments one by one, as they fail to fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

_TOO_MANY: Final = 60
_PART: Final = re.compile(r"(?P<type>.+?) (?P<name>\w+)(?: = (?P<default>.+))?")
_SEPARATOR: Final = re.compile(r", (?![^()\[\]]*[\])])")
_COUNT: Final = re.compile(
    r"takes (?:from (\d+) to )?(\d+|no|exactly one) (?:positional )?argument"
)
_WANTED: Final = re.compile(r"argument '(\w+)'(?: \(position \d+\))? must be (.+), not object")
_WORDS: Final = {"no": 0, "exactly one": 1}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; ``type`` is the word of the parser, such as "tuple of ints"."""

    name: str
    type: str
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters that may be given by position, and those that are given by name alone."""

    positional: tuple[Parameter, ...]
    named: tuple[Parameter, ...] = ()


class _Unknown(Exception):
    """The parser of this torch speaks in words that are not known here."""


def signatures_of(binding: Callable[..., Any], named: Sequence[str]) -> tuple[Signature, ...]:
    """Return the signatures in the order in which they are tried; none where torch tells none.

    ``self`` of methods stands in front. ``named`` are the names that parameters by name may have.
    """
    is_method = type(binding).__name__ == "method_descriptor"
    given = (_fitting("Tensor"),) if is_method else ()
    try:
        found = _found(binding, given, named)
    except _Unknown:
        return ()
    first = tuple(Parameter("self", "Tensor") for _ in given)
    return tuple(Signature((*first, *one.positional), one.named) for one in found)


def _found(
    binding: Callable[..., Any], given: tuple[Any, ...], named: Sequence[str]
) -> list[Signature]:
    message = _error(binding, *given, *[None] * _TOO_MANY)
    _, several, listed = message.partition("but expected")
    if several:
        return [_listed(text) for text in re.findall(r"\((.*)\)$", listed, re.MULTILINE)]
    return [_asked(binding, given, message, named)]


def _error(binding: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    try:
        binding(*arguments, **keywords)
    except TypeError as error:
        return str(error)
    except Exception:
        raise _Unknown from None
    raise _Unknown


def _listed(text: str) -> Signature:
    """Read ``Tensor input, tuple of ints dim = None, *, torch.dtype dtype``."""
    before, _, behind = f"{text}, ".partition("*, ")
    return Signature(tuple(_parameters(before)), tuple(_parameters(behind)))


def _parameters(text: str) -> Iterator[Parameter]:
    for part in filter(None, _SEPARATOR.split(text.removesuffix(", "))):
        match = _matched(_PART.fullmatch(part))
        yield Parameter(match["name"], match["type"], match["default"] is not None)


def _asked(
    binding: Callable[..., Any], given: tuple[Any, ...], message: str, named: Sequence[str]
) -> Signature:
    """Ask for the only signature, parameter by parameter."""
    match = _matched(_COUNT.search(message))
    most = _WORDS[match[2]] if match[2] in _WORDS else int(match[2])
    least = most if match[1] is None else int(match[1])
    positional: list[Parameter] = []
    values = list(given)
    for position in range(most):
        name, type_ = _wanted(_error(binding, *values, object()))
        positional.append(Parameter(name, type_, has_default=position >= least))
        values.append(_fitting(type_))
    return Signature(tuple(positional), tuple(_asked_by_name(binding, values, named)))


def _asked_by_name(
    binding: Callable[..., Any], values: Sequence[Any], named: Sequence[str]
) -> Iterator[Parameter]:
    keywords: dict[str, Any] = {}
    for name in named:
        answer = _error(binding, *values, **keywords, **{name: object()})
        if "unexpected keyword" not in answer and "takes no keyword" not in answer:
            _, type_ = _wanted(answer)
            keywords[name] = _fitting(type_)
            yield Parameter(name, type_, has_default=True)


def _wanted(message: str) -> tuple[str, str]:
    match = _matched(_WANTED.search(message))
    return match[1], match[2]


def _matched(match: re.Match[str] | None) -> re.Match[str]:
    if match is None:
        raise _Unknown
    return match


def _fitting(type_: str) -> Any:
    try:
        return _fitting_values()[type_]
    except KeyError:
        raise _Unknown from None


@cache
def _fitting_values() -> dict[str, Any]:
    """A value of each type, for the parser to go on to the next parameter."""
    one = torch.ones(1)
    return {
        "Tensor": one,
        "int": 1,
        "float": 1.0,
        "bool": True,
        "Number": 1,
        "str": "",
        "tuple of ints": (1,),
        "tuple of floats": (1.0,),
        "tuple of bools": (True,),
        "tuple of Tensors": (one,),
        "torch.dtype": torch.float32,
        "torch.layout": torch.strided,
        "torch.memory_format": torch.contiguous_format,
        "torch.device": torch.device("cpu"),
        "torch.Generator": torch.default_generator,
    }
