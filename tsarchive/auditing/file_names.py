"""The file names that code gives to operators, as far as they are written down somewhere.

Text is followed through local names, string operators, parameters to the calls of the function,
attributes to the pickled state, and constants of classes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice, product
from typing import Final

from tsarchive.auditing.program import Program
from tsarchive.auditing.walking import Walked
from tsarchive.formats.torchscript.program_text import FunctionText
from tsarchive.scanning.report import COMPUTED

# Text of attributes by class and attribute, as the pickles hold it.
PickledText = Mapping[tuple[str, str], Iterable[str]]
_MOST: Final = 8
# Letters of a text: systems take no longer names, and texts that are joined grow.
_LONGEST: Final = 4096
_MOST_VALUES: Final = 32
_DEPTH: Final = 12
_JOINING: Final = frozenset({"torch.add", "torch.add_", "torch.__add__"})
_FORMATTING: Final = frozenset({"torch.format", "torch.percentFormat"})


class FileNames:
    """Looks for text in the functions that ``walked`` holds."""

    def __init__(
        self, program: Program, walked: Mapping[str, Walked], pickled: PickledText
    ) -> None:
        self.program = program
        self.walked = walked
        self.pickled = pickled
        self._known: dict[int, list[str]] = {}

    def given_to(self, function: FunctionText, call: ast.expr) -> tuple[str, ...]:
        """What the arguments of a call say of files; nothing written down means computed."""
        if not isinstance(call, ast.Call):
            return (COMPUTED,)
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        found = [text for given in arguments for text in self._texts(function, given, _DEPTH)]
        known = dict.fromkeys(text for text in found if text != COMPUTED)
        return tuple(known)[:_MOST] or (COMPUTED,)

    def _texts(self, function: FunctionText, node: ast.expr, depth: int) -> list[str]:
        """The texts that an expression may be; each expression is looked at once."""
        if depth == 0:
            return [COMPUTED]
        found = self._known.get(id(node))
        if found is None:
            self._known[id(node)] = [COMPUTED]  # while it is being looked at
            all_texts = self._all_texts(function, node, depth - 1)
            texts = dict.fromkeys(text[:_LONGEST] for text in all_texts)
            found = self._known[id(node)] = list(texts)[:_MOST]
        return found

    def _all_texts(self, function: FunctionText, node: ast.expr, depth: int) -> Iterator[str]:
        match node:
            case ast.Constant(str() as text):
                yield text
            case ast.Name(name):
                yield from self._of_name(function, name, depth)
            case ast.BinOp(left, ast.Add(), right):
                yield from self._joined(function, [left, right], depth)
            case ast.Call():
                yield from self._of_call(function, node, depth)
            case ast.Attribute(value, attribute):
                yield from self._of_attribute(function, value, attribute, depth)
            case ast.IfExp(_, body, orelse):
                yield from self._texts(function, body, depth)
                yield from self._texts(function, orelse, depth)
            case _:
                yield COMPUTED

    def _of_call(self, function: FunctionText, call: ast.Call, depth: int) -> Iterator[str]:
        names = self.walked[function.qualified_name].inference.names(call.func)
        if names & _JOINING and len(call.args) >= 2:
            yield from self._joined(function, call.args[:2], depth)
        elif names & _FORMATTING and call.args:
            yield from self._texts(function, call.args[0], depth)
        elif isinstance(call.func, ast.Name) and call.func.id in ("unchecked_cast", "annotate"):
            yield from self._texts(function, call.args[-1], depth) if call.args else ()
        else:
            yield COMPUTED

    def _joined(self, function: FunctionText, parts: list[ast.expr], depth: int) -> Iterator[str]:
        for combination in product(*(self._texts(function, part, depth) for part in parts)):
            text = "".join(combination)
            yield COMPUTED if set(text) <= set(COMPUTED) else text

    def _of_name(self, function: FunctionText, name: str, depth: int) -> Iterator[str]:
        values = self.walked[function.qualified_name].inference.assigned.get(name, [])
        for value in values[:_MOST_VALUES]:
            yield from self._texts(function, value, depth)
        if name in function.parameters:
            yield from self._of_parameter(function, name, depth)
        elif not values:
            yield COMPUTED

    def _of_parameter(self, function: FunctionText, name: str, depth: int) -> Iterator[str]:
        place = function.parameters.index(name)
        default = function.default(name)
        if default is not None:
            yield from self._texts(function, default, depth)
        for caller, call in self._calls.get(function.qualified_name, [])[:_MOST_VALUES]:
            offset = 1 if function.owner else 0
            given = [k.value for k in call.keywords if k.arg == name]
            given += call.args[place - offset : place - offset + 1] if place >= offset else []
            for node in given:
                yield from self._texts(caller, node, depth)
        yield COMPUTED

    def _of_attribute(
        self, function: FunctionText, value: ast.expr, attribute: str, depth: int
    ) -> Iterator[str]:
        for owner in self.walked[function.qualified_name].inference.classes(value):
            yield from islice(self.pickled.get((owner, attribute), ()), _MOST_VALUES)
            for writer, given in self._assigned.get((owner, attribute), [])[:_MOST_VALUES]:
                yield from self._texts(writer, given, depth)
            class_ = self.program.classes.get(owner)
            constant = class_.constants.get(attribute) if class_ is not None else None
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                yield constant.value
        yield COMPUTED

    @cached_property
    def _assigned(self) -> Mapping[tuple[str, str], list[tuple[FunctionText, ast.expr]]]:
        """What code assigns to the attributes of each class."""
        found: dict[tuple[str, str], list[tuple[FunctionText, ast.expr]]] = {}
        for name, walked in self.walked.items():
            for node in walked.inference.nodes:
                match node:
                    case ast.Assign([ast.Attribute(value, attribute)], given):
                        for owner in walked.inference.classes(value):
                            writers = found.setdefault((owner, attribute), [])
                            writers.append((self.program.functions[name], given))
        return found

    @cached_property
    def _calls(self) -> Mapping[str, list[tuple[FunctionText, ast.Call]]]:
        """Who calls each function of the archive."""
        found: dict[str, list[tuple[FunctionText, ast.Call]]] = {}
        for name, walked in self.walked.items():
            for node in walked.inference.nodes:
                if isinstance(node, ast.Call):
                    for callee in walked.inference.callees(node.func):
                        calls = found.setdefault(callee.qualified_name, [])
                        calls.append((self.program.functions[name], node))
        return found
