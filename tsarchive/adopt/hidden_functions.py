"""The functions of a file that torch.jit.load has read, which Python is not given.

A graph that calls such a function has its type, and nothing else of it. Two things that torch does
with a type show the rest: it inlines a call, and it says why a call does not compile. ``bindings``
is ``torch._C``; this file works on what it is given and imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from tsarchive.errors import SaveError


class Parameter(NamedTuple):
    """A parameter as torch shows it: ``type`` is text, in torch's form for schemas."""

    type: str
    name: str
    has_default: bool


class Calls:
    """The name of the module classes whose methods call hidden functions."""


_CALLED = "__called"
# What stands between commas of a schema; a default may be a string with anything in it.
_STRING = r'"(?:[^"\\]|\\.)*"'
_BRACKETS = {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}
_PIECE = re.compile(rf"{_STRING}|->|.", re.DOTALL)
_PARAMETER = re.compile(r"(.*) (\w+)(=.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HiddenFunction:
    """A function of a file: its torch ``type``, and the types of what one call passes and returns.

    ``unoptimised`` makes torch inline bodies as they are written.
    """

    bindings: Any
    type: Any
    passed: Sequence[Any]
    returned: Any
    unoptimised: Callable[[], AbstractContextManager[None]]

    def graph(self) -> Any:
        """Return the function's own graph, with parameters that have no names.

        torch inlines what its optimiser has made of a function, once for each way in which it can
        run. That is a copy of the graph where the optimiser is off.
        """
        graph = self.bindings.Graph()
        constant = graph.create("prim::Constant", [], 1)
        constant.s_("name", "function")
        constant.output().setType(self.type)
        graph.insertNode(constant)
        inputs = []
        for type_ in self.passed:
            inputs.append(graph.addInput())
            inputs[-1].setType(type_)
        call = graph.create("prim::CallFunction", [constant.output(), *inputs], 1)
        call.output().setType(self.returned)
        graph.registerOutput(graph.insertNode(call).output())
        with self.unoptimised():
            self.bindings._jit_pass_inline(graph)
        constant.destroy()
        return graph

    def parameters(self) -> list[Parameter]:
        """Return the parameters, which torch shows where a call does not fit them."""
        try:
            self._compiled({}, "no_such_parameter=0")
        except RuntimeError as error:
            return list(_parameters(str(error)))
        raise self._fail()

    def defaults(self, parameters: Sequence[Parameter], read: Callable[[Any], Any]) -> list[Any]:
        """Return what ``read`` makes of the constants that a call without them passes, in order."""
        if not any(parameter.has_default for parameter in parameters):
            return []
        given = {
            parameter.name: type_
            for parameter, type_ in zip(parameters, self.passed, strict=True)
            if not parameter.has_default
        }
        try:
            graph = self._compiled(given, ", ".join(f"{name}=self.{name}" for name in given))
        except RuntimeError as error:
            raise self._fail() from error
        call = next(node for node in graph.nodes() if node.kind() == "prim::CallFunction")
        places = (n for n, parameter in enumerate(parameters, 1) if parameter.has_default)
        return [read(call.inputsAt(place).node()) for place in places]

    def _compiled(self, attributes: Mapping[str, Any], passed: str) -> Any:
        """Return the graph of a method that calls the function with arguments of that text."""
        builder = self.bindings.ConcreteModuleTypeBuilder(Calls)
        builder.add_function_attribute(_CALLED, self.type, None)
        for name, type_ in attributes.items():
            builder.add_attribute(name, type_, False, False)
        concrete = builder.build()
        module = self.bindings._create_module_with_type(concrete.jit_type)
        text = f"def call(self):\n  return self.{_CALLED}({passed})\n"
        module._define(concrete, text, lambda _: None)
        return module._get_method("call").graph

    def _fail(self) -> SaveError:
        return SaveError(
            f"the function {self.type.annotation_str} cannot be reached from Python",
            hint="torch.jit.load hides the functions of a file: load it with tsarchive",
        )


def _parameters(error: str) -> Iterator[Parameter]:
    """Yield what an error says of a function: ``f(Tensor x, int n=2) -> Tensor:`` is a line."""
    inside = error.strip().partition("(")[2]
    depth, text = 0, ""
    for piece in _PIECE.findall(inside):
        if depth == 0 and piece in (",", ")"):
            match = _PARAMETER.fullmatch(text.strip())
            if match is not None:
                yield Parameter(match[1], match[2], match[3] is not None)
            text = ""
            if piece == ")":
                return
        else:
            depth += _BRACKETS.get(piece, 0)
            text += piece
