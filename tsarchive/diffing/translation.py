"""What was renamed between two files: names before, as they are called after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from tsarchive.analyses.encoding import Plain
from tsarchive.formats.contents import Body, Definition, Operation, Outline, Routine
from tsarchive.ir.names import closest

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_MEMBERS: Final = frozenset({"prim::GetAttr", "prim::SetAttr"})


@dataclass(frozen=True, slots=True)
class Renamings:
    """Names of before by those of after: of definitions, of the members of a class (by its name
    before), of constants of the table, whose numbers differ, and paths of modules, of which
    ``classes`` has the names of the classes before."""

    definitions: dict[str, str] = field(default_factory=dict)
    members: dict[tuple[str, str], str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)

    def type(self, text: str) -> str:
        """Return the text of a type."""
        if not self.definitions:
            return text
        return _NAME.sub(lambda match: self.definitions.get(match[0], match[0]), text)

    def member(self, class_: str, name: str) -> str:
        """Return the name of an attribute of a class."""
        return self.members.get((class_, name), name)

    def path(self, path: str) -> str:
        """Return the path of what is in a module, or of the module."""
        parent = closest(path, self.paths)
        renamed = self.paths.get(parent, parent)
        name, dot, rest = path[len(parent) :].removeprefix(".").partition(".")
        inside = self.member(self.classes.get(parent, ""), name) + dot + rest
        return f"{renamed}.{inside}" if renamed and inside else renamed or inside

    def value(self, value: Any) -> Plain:
        """Return a constant."""
        match value:
            case {"constant": str(name)}:
                return {"constant": self.constants.get(name, name)}
            case {"object": str(path)}:
                return {"object": self.path(path)}
            case {"enum": str(name)}:
                return {**value, "enum": self.definitions.get(name, name)}
            case {"function": str(name)}:
                return {"function": self.definitions.get(name, name)}
            case {"class": str(name), "attributes": slots}:
                named = self.definitions.get(name, name)
                return {"class": named, "attributes": self.value(slots)}
            case {"type": str(text), "value": item}:
                return {"type": self.type(text), "value": self.value(item)}
            case Mapping():
                return {key: self.value(item) for key, item in value.items()}
            case list() | tuple():
                return [*map(self.value, value)]
        return value  # type: ignore[no-any-return]

    def typed(self, plain: Sequence[Any]) -> Plain:
        """Return a type and what follows it."""
        type_, *others = plain
        return [self.type(type_), *map(self.value, others)]

    def definition(self, definition: Definition) -> Definition:
        """Return a definition."""
        own = definition.name
        return Definition(
            self.definitions.get(own, own),
            {key: self.value(trait) for key, trait in definition.traits.items()},
            {
                self.member(own, name): self.typed(_sequence(slot))
                for name, slot in definition.attributes.items()
            },
            {key: self.typed(_sequence(item)) for key, item in definition.constants.items()},
            {key: self.routine(routine) for key, routine in definition.routines.items()},
        )

    def routine(self, routine: Routine) -> Routine:
        """Return a function."""
        return _Translation(self).routine(routine)

    def outline(self, outline: Outline) -> Outline:
        """Return an outline whose definitions are renamed; modules that share one still do."""
        if not self.definitions:
            return outline
        renamed = cache(lambda key: self.definition(found[key]))
        modules = outline.modules
        found = {id(module.definition): module.definition for module in modules.values()}
        return outline._replace(
            modules={
                path: module._replace(definition=renamed(id(module.definition)))
                for path, module in modules.items()
            },
            definitions=[*map(self.definition, outline.definitions)],
        )


def _sequence(plain: Plain) -> Sequence[Any]:
    assert isinstance(plain, list | tuple)
    return plain


class _Translation:
    """Translates one function, whose values have types by their numbers."""

    def __init__(self, names: Renamings) -> None:
        self._names = names
        self._types: list[str] = []

    def routine(self, routine: Routine) -> Routine:
        arguments = [
            [name, self._names.type(type_), [*map(self._names.value, default)]]
            for name, type_, default in map(_sequence, routine.arguments)
        ]
        returns = [*map(self._names.type, map(str, routine.returns))]
        return Routine(arguments, returns, self._body(routine.body), routine.lines)

    def _body(self, body: Body) -> Body:
        params = self._define(body.params)
        operations = [*map(self._operation, body.operations)]
        return Body(params, operations, [*map(self._use, body.results)])

    def _define(self, types: Sequence[Plain]) -> Sequence[Plain]:
        self._types += map(str, types)
        return [*map(self._names.type, map(str, types))]

    def _use(self, plain: Plain) -> Plain:
        return plain if isinstance(plain, int) else self._names.typed(_sequence(plain))

    def _operation(self, operation: Operation) -> Operation:
        return operation._replace(
            inputs=[*map(self._use, operation.inputs)],
            attributes=self._attributes(operation),
            bodies=[*map(self._body, operation.bodies)],
            outputs=self._define(operation.outputs),
        )

    def _attributes(self, operation: Operation) -> Mapping[str, Plain]:
        found = {key: self._names.value(item) for key, item in operation.attributes.items()}
        if "types" in found:
            found["types"] = [self._names.type(str(t)) for t in _sequence(found["types"])]
        first = operation.inputs[0] if operation.inputs else None
        if operation.operator in _MEMBERS and isinstance(first, int):
            found["name"] = self._names.member(self._types[first], str(found["name"]))
        return found
