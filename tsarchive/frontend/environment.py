"""Names: what they mean in the blocks of a function, and in closures inside it."""

from __future__ import annotations

from collections.abc import Callable

from tsarchive.ir.builder import Builder
from tsarchive.ir.graph import Block, Node, Placed, Value, drop_carried
from tsarchive.ir.types import Type

from .references import Reference, Typed


class Frame(Builder):
    """Builds the body of a function, or of a closure inside one.

    ``version`` is None where code is lowered at the current operator version: everywhere but in
    methods of classes. ``keeps_constants`` is for an open world, where it matters where they are
    written.
    """

    def __init__(
        self,
        version: int | None,
        place: Callable[[], Placed],
        checked: Callable[[Type], Type],
        *,
        keeps_constants: bool,
    ) -> None:
        shares = not keeps_constants
        super().__init__(Block(), place, checked, hoists_constants=shares, shares_constants=shares)
        self.version = version
        self.captured: dict[Value, Value] = {}
        self.reads: dict[Value, str | None] = {}
        # Loops over ``while c``, and what stands for c in their bodies.
        self.conditions: list[tuple[Node, Value]] = []

    def capture(self, outer: Typed) -> Typed:
        """Return the parameter of a closure's body that stands for an outer value."""
        param = self.captured.get(outer.value)
        if param is None:
            param = self.body.add_param(outer.value.type, outer.value.name)
            self.captured[outer.value] = param
        return outer._replace(value=param)

    def tidy(self) -> None:
        """Remove what turned out to be unused."""
        for loop, param in reversed(self.conditions):
            index = loop.blocks[0].params.index(param) - 1
            if not param.uses and not loop.outputs[index].uses:
                drop_carried(loop, index)
        self.remove_unused()

    def finish(self) -> Block:
        self._name_reads()
        return super().finish()

    def _name_reads(self) -> None:
        """Name reads of attributes "0", "1", ... after them, where torch did so.

        It does in code that names all reads; older code has reads without a name, and there
        ``_16 = getattr(x, "1")`` is the sixteenth unnamed value.
        """
        if all(value.name or proposed for value, proposed in self.reads.items()):
            for value, proposed in self.reads.items():
                value.name = value.name or proposed


class Scope:
    """The names assigned in one block, in the order of their last assignment."""

    def __init__(self, frame: Frame, outer: Scope | None = None) -> None:
        self.frame = frame
        self.outer = outer
        self.names: dict[str, Reference] = {}
        self.unusable: dict[str, str] = {}

    def find(self, name: str) -> Reference | None:
        """Return what a name denotes here; a value from outside of a closure is captured."""
        scope: Scope | None = self
        while scope is not None and scope.frame is self.frame:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        found = None if scope is None else scope.find(name)
        return self.frame.capture(found) if isinstance(found, Typed) else found

    def find_outside(self, name: str) -> Reference | None:
        """Return what a name denotes in the enclosing blocks of the same function."""
        if self.outer is None or self.outer.frame is not self.frame:
            return None
        return self.outer.find(name)

    def bind(self, name: str, reference: Reference) -> None:
        self.names.pop(name, None)
        self.names[name] = reference

    def why_unusable(self, name: str) -> str | None:
        """Return why a name that was assigned cannot be used here."""
        reason = self.unusable.get(name)
        if reason is None and self.outer is not None:
            return self.outer.why_unusable(name)
        return reason
