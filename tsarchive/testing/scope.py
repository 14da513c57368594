"""The variables available to a statement, and their merging after branches."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class Scope:
    """The variables in scope.

    ``types``: the type of every variable that may be read; ``fixed``: those of them that may not be
    assigned; ``used``: every name of the function, since torch compiles some blocks as part of
    their surroundings.
    """

    types: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        return replace(self, types={**self.types}, fixed={*self.fixed})

    def closed(self) -> Scope:
        """Return an inner scope in which no variable of this one may be assigned."""
        return replace(self.inner(), fixed={*self.types})

    def named(self, type_: str) -> list[str]:
        return [name for name, found in self.types.items() if found == type_]

    def assignable(self, type_: str) -> list[str]:
        return [name for name in self.named(type_) if name not in self.fixed]

    def declare(self, name: str, type_: str) -> None:
        self.types[name] = type_
        self.used.add(name)

    def refine(self, name: str, type_: str) -> None:
        """Refine a variable to ``type_``; assigning it would undo that."""
        self.types[name] = type_
        self.fixed.add(name)

    def hide(self, name: str) -> None:
        """Hide a variable that is known to hold None."""
        del self.types[name]

    def join(self, before: Container[str], branches: Iterable[Scope]) -> None:
        """Adopt the variables that every branch that falls through defines with the same type.

        ``before`` are the names that existed before the branches.
        """
        first, *rest = branches
        for name, type_ in first.types.items():
            if name not in before and all(branch.types.get(name) == type_ for branch in rest):
                self.declare(name, type_)
