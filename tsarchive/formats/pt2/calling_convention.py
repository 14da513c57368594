"""Calls of a program from Python: arguments by position and name, and the result.

As in torch, structures must be those that the program was exported with; keys of dicts may come in
any order, and positional arguments may be named.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from tsarchive.errors import CallError
from tsarchive.run.calls_from_python import PublicMethod, as_it_is, public_by
from tsarchive.run.calls_from_python import Signature as CallSignature
from tsarchive.run.compiler import Compiler

from .forward import Forward
from .pytree_conversion import argument_converter, result_converter


class ForwardMethod(PublicMethod):
    """``forward`` of the root of a program, for callers in Python."""

    def __init__(self, forward: Forward, compiler: Compiler) -> None:
        super().__init__(forward.module.type.methods["forward"], compiler)
        self._forward = forward

    def _made(self) -> Any:
        convention = _Convention(self._forward, self._compiler)
        finish = result_converter(self._forward.result) or as_it_is
        return public_by(self._function, self._compiler, convention, finish)


class _Convention(CallSignature):
    """Binds positional arguments, which may be named, and keyword-only ones."""

    def __init__(self, forward: Forward, compiler: Compiler) -> None:
        schema = forward.module.type.methods["forward"].schema
        super().__init__("forward", schema, compiler, is_method=True)
        parameters = forward.signature.parameters
        self._names = [parameter.name for parameter in parameters]
        self._are_keywords = [parameter.is_keyword for parameter in parameters]
        self._positional = self._are_keywords.count(False)
        self._given = [
            argument_converter(typed, parameter.name, compiler.linkage.table)
            for typed, parameter in zip(forward.parameters, parameters, strict=True)
        ]

    def bind(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """Return the arguments in the order that the code of the program takes.

        Raises CallError for missing, surplus and unknown arguments, and for those of another
        structure or type than the program was exported with.
        """
        if len(given) > self._positional:
            raise CallError(
                f"forward() takes {self._positional} positional arguments, {len(given)} were given"
            )
        for name in keywords:
            if name not in self._names:
                raise CallError(f"forward() has no argument {name!r}")
            if name in self._names[: len(given)]:
                raise CallError(f"forward() was given the argument {name!r} twice")
        for name in self._names[len(given) :]:
            if name not in keywords:
                raise CallError(f"forward() misses the argument {name!r}")
        found = [*given, *(keywords[name] for name in self._names[len(given) :])]
        return [convert(value) for convert, value in zip(self._given, found, strict=True)]

    def shown(self) -> inspect.Signature:
        shown = super().shown()
        own, *others = shown.parameters.values()
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) if is_keyword else parameter
            for parameter, is_keyword in zip(others, self._are_keywords, strict=True)
        ]
        return shown.replace(parameters=[own, *parameters])
