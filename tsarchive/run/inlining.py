"""Where generated source holds an operator as syntax, and an expression inside another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tsarchive.ir.graph import RETURN, Node, Value
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING
from tsarchive.operators.python_forms import (
    ANY_INT,
    EXACT_FORMS,
    EXACT_STATEMENTS,
    RANGED,
    RANGES,
    TURNS,
    ExactForm,
    Range,
    exact_form,
)

from .linkage import Linkage
from .names import Globals, LocalNames
from .natives import NATIVES
from .natives.narrowing import wrap
from .passes.last_uses import ALIASES

__all__ = ["HELPERS", "SCALARS", "Inlining"]

SCALARS: Final = frozenset({BOOL, INT, FLOAT, STRING, NONE})
"""Types whose values do not change and hold no memory to be given up."""

HELPERS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "abs": abs, "append": list.append, "chr": chr, "divmod": divmod, "float": float,
        "int": int, "isascii": str.isascii, "len": len, "list": list, "ord": ord, "str": str,
        "type": type, "wrap": wrap,
    }
)  # fmt: skip
"""What exact forms call, by the name in their braces; ``native`` is the operator itself."""


class Inlining(ABC):
    """The texts of values; those used once may be expressions, without a variable."""

    def __init__(self, linkage: Linkage) -> None:
        self.linkage = linkage
        self.dispatch = linkage.dispatch
        self.names = LocalNames()
        self.globals = Globals(self.names)
        self.text: dict[Value, str] = {}
        self.live_values: set[Value] = set()
        self.ending: Container[Value] = ()
        self.passed_on: set[Value] = set()
        self._wide = self.names.unique("wide")
        self._folded: dict[Value, str] = {}
        self._pure: set[Node] = set()
        self._ranges: dict[Value, Range] = {}

    @abstractmethod
    def use(self, value: Value) -> str:
        """The text that stands for ``value`` where it is used."""

    def inlined(self, schema: FunctionSchema, node: Node, texts: Sequence[str]) -> str | None:
        """The operator as syntax; None where a function runs it, which limits and tracers need."""
        key = schema.full_name
        form = self._form(key, node) if self.dispatch.inlines else None
        if form is None or self.dispatch.implementation(schema) is not NATIVES[key]:
            return None
        if form.is_pure and all(value.type in SCALARS for value in node.inputs):
            self._pure.add(node)
        names = {name: self._called(name, key) for name in form.names}
        return form.text.format(*texts, **names)

    def _called(self, name: str, key: str) -> str:
        if name == "native":
            return self.globals.name(key.replace("::", "_"), NATIVES[key])
        return self.globals.name(name, HELPERS[name])

    def _form(self, key: str, node: Node) -> ExactForm | None:
        if key in EXACT_STATEMENTS:
            is_used = any(output in self.live_values for output in node.outputs)
            return None if is_used else EXACT_STATEMENTS[key]
        if key not in RANGED:
            return EXACT_FORMS.get(key)
        form = exact_form(key, [self._range(value) for value in node.inputs], self._wide)
        if form is not None:
            self._ranges[node.output] = form.range
        return form

    def _range(self, value: Value) -> Range:
        """The known bounds of an int."""
        node = value.node
        if node.is_constant:
            number = int(node.attributes["value"])
            return number, number
        if value not in self._ranges and node.schema is not None:
            return RANGES.get(node.schema.full_name, ANY_INT)
        return self._ranges.get(value, ANY_INT)

    def counts_turns(self, value: Value) -> None:
        """``value`` is the number of the turn of a loop."""
        self._ranges[value] = TURNS

    def passed(self, values: Sequence[Value]) -> str:
        """The arguments of a call of archive code, which alone holds what ends with the call.

        It can give a tensor up as soon as it has used it, as torch does.
        """
        texts = [self.use(value) for value in values]
        for position, value in enumerate(values if self.dispatch.inlines else ()):
            text = texts[position]
            if value in self.ending and texts.count(text) == 1:
                texts[position] = f"({text}, {text} := None)[0]"
                self.passed_on.add(value)
        return ", ".join(texts)

    def is_pure(self, node: Node) -> bool:
        """Whether the text of ``node`` is an expression that may stand elsewhere in its block."""
        return node in self._pure

    def fold(self, value: Value, text: str, here: Container[Node | None]) -> bool:
        """Keep ``text`` for the one place that uses ``value``; false where that cannot be.

        ``here`` are the nodes of the same block: what stands in an inner one may run many times.
        """
        if len(value.uses) != 1:
            return False
        ((user, position),) = value.uses
        is_final = user.kind == RETURN
        if user not in here or not (is_final or self._reads_once(user, position)):
            return False
        if self._wide in text and not is_final:
            return False
        self._folded[value] = text
        self.text[value] = f"({text})"
        return True

    def is_expression(self, value: Value) -> bool:
        """Whether the text of ``value`` is that of an operator and not of a variable."""
        return value in self._folded

    def whole(self, value: Value) -> str:
        """The text of ``value`` for a place where it stands alone."""
        return self._folded.get(value) or self.use(value)

    def _reads_once(self, user: Node, position: int) -> bool:
        if user.schema is None:
            return user.kind not in ALIASES
        form = self._form(user.schema.full_name, user)
        return form is None or form.text.count(f"{{{position}}}") == 1
