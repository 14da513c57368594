"""Drawing of functions and methods, and of forms that call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from . import literals
from .scope import Scope
from .statements import Statements

_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    default: str = ""
    keyword_only: bool = False

    @property
    def text(self) -> str:
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a function. ``owner`` is "self" for methods and empty for functions."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    owner: str = ""

    def header(self) -> str:
        shown = [self.owner] * bool(self.owner)
        for parameter in self.parameters:
            if parameter.keyword_only and "*" not in shown:
                shown.append("*")
            shown.append(parameter.text)
        return f"def {self.name}({', '.join(shown)}) -> {self.result}:"

    def commented_header(self) -> list[str]:
        """Return a header in the old style, with a type comment."""
        shown = [self.owner] * bool(self.owner)
        shown += [p.name + (f"={p.default}" if p.default else "") for p in self.parameters]
        types = ", ".join(parameter.type for parameter in self.parameters)
        return [
            f"def {self.name}({', '.join(shown)}):",
            f"    # type: ({types}) -> {self.result}",
        ]

    def calls(self, callee: str) -> list[str]:
        """Return calls with all arguments, only the required ones, and all of them by name."""
        positional = [p for p in self.parameters if not p.keyword_only]
        named = [f"{p.name}=<{p.type}>" for p in self.parameters if p.keyword_only]
        needed = [f"<{p.type}>" for p in positional if not p.default]
        by_name = [f"{p.name}=<{p.type}>" for p in reversed(self.parameters)]
        ways = (
            [*(f"<{p.type}>" for p in positional), *named],
            [*needed, *(f"{p.name}=<{p.type}>" for p in self.parameters
                        if p.keyword_only and not p.default)],
            by_name,
        )  # fmt: skip
        return [f"{callee}({', '.join(way)})" for way in ways]


class Functions(Statements):
    def signature(self, name: str, owner: str = "") -> Signature:
        result = self.pick([*self.vocabulary.types, "None"])
        return Signature(name, self.parameters(self.vocabulary.types), result, owner)

    def parameters(
        self, types: Sequence[str], *, by_name: bool = True, least: int = 0
    ) -> tuple[Parameter, ...]:
        """Draw up to three parameters; ``by_name`` allows keyword-only ones."""
        # TorchScript does not read back a keyword-only parameter behind one with a default.
        by_name = by_name and self.chance(4)
        scope = Scope()
        found: list[Parameter] = []
        for _ in range(self.draw(st.integers(least, 3))):
            type_, name = self.pick(types), self.new_name(scope)
            scope.declare(name, type_)
            has_default = not by_name and _may_have_default(type_) and self.chance(3)
            default = self._default(type_) if has_default else ""
            found.append(Parameter(name, type_, default, by_name and self.chance(2)))
        return tuple(sorted(found, key=lambda p: (p.keyword_only, bool(p.default))))

    def _default(self, type_: str) -> str:
        return "None" if type_.startswith("Optional") else self.draw(literals.BY_TYPE[type_])

    def function(self, signature: Signature, depth: int = _DEPTH) -> list[str]:
        """Return the lines of the definition."""
        scope = Scope()
        for parameter in signature.parameters:
            scope.declare(parameter.name, parameter.type)
        header = [signature.header()]
        if not any(p.keyword_only for p in signature.parameters) and self.chance(6):
            header = signature.commented_header()
        body = self.body(scope, signature.result, depth)
        return [*header, *("    " + line for line in body)]

    def add_forms(self, result: str, calls: list[str]) -> None:
        """Add calls as expressions, or as statements where they return nothing."""
        if result == "None":
            self.vocabulary.statements += calls
        else:
            self.vocabulary.add(result, *calls)


def _may_have_default(type_: str) -> bool:
    return type_ in literals.BY_TYPE or type_.startswith("Optional")
