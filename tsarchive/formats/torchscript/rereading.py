"""Simulation of saving and loading: the types and graphs of a module's own code, read back.

Reading text back changes graphs in small ways: a list constant becomes the construction of a list,
an operator the first overload that matches, the members of a Union are sorted by name, and
conditions that the text decides are folded. The canonical form is text that is a fixpoint of
reading and printing, so a module goes through its text, in memory and without its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tsarchive.adopt.getstate import always_held_parts
from tsarchive.errors import SaveError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.source_ranges import TaggedRange
from tsarchive.ir.types import EnumType, Type
from tsarchive.ir.values import EnumMember, ObjectValue, TypedValue
from tsarchive.printer.canonical import CanonicalDefinitions, CanonicalNames
from tsarchive.printer.program import Program
from tsarchive.printer.range_fixpoint import fixpoint_ranges

from .constants import Constants
from .pickling import Pickling, run_time_type
from .runnable import runnable_code

# Each reading folds what the one before exposed; more than one is rare.
_MOST_READINGS = 16


def settled_text(
    root: ObjectValue, constants: Constants, *, keeps_places: bool = False
) -> CanonicalText:
    """Return the text that is a fixpoint, and the objects with the classes that it defines.

    ``constants`` is the table to fill while ``root`` is printed; ``keeps_places`` keeps locations
    in user source. Raises SaveError for a module that cannot be printed, SourceError for text that
    cannot be read back.
    """
    text = CanonicalText(root, constants)
    for _ in range(_MOST_READINGS):
        places = text.places if keeps_places else {}
        again = CanonicalText(_Rereading(text, places).value(root), Constants())
        if again.files == text.files:
            return again
        root, text = again.root, again
    raise SaveError(
        f"{root.type.qualified_name} has no canonical form: its code changes with each reading",
        hint="Save it without canonical=True",
    )


class CanonicalText:
    """A module and its code under canonical names.

    ``pickling`` and ``data`` are the module as a pickle value, which named its classes.
    """

    def __init__(self, root: ObjectValue, constants: Constants) -> None:
        self.root = root
        self.names = CanonicalNames()
        self.constants = constants
        self.pickling = Pickling(self.names)
        self.data = self.pickling.held(root, root.type)
        program = Program(self.names, constants, CanonicalDefinitions)
        program.print_classes(self.pickling.classes)
        self._bodies = {f"code/{file.name}": file.body for file in program.files()}
        self.files = {f"code/{file.name}": file.text for file in program.files()}
        self.version = program.version

    @cached_property
    def places(self) -> dict[str, list[TaggedRange]]:
        """Return the ranges of user source for each record, as debug records hold them."""
        return dict(zip(self._bodies, fixpoint_ranges([*self._bodies.values()]), strict=True))


class _Rereading:
    """Describes objects and values anew, preserving identity."""

    def __init__(self, text: CanonicalText, places: Mapping[str, list[TaggedRange]]) -> None:
        self._names = text.names
        self._constants = text.constants
        self._known: dict[int, Any] = {}
        self._code = runnable_code(
            text.files,
            constant=self._constant,
            version=text.version,
            debug=places,
        )

    def value(self, value: Any) -> Any:
        build = _BUILDERS.get(type(value))
        if build is None:
            return value
        if id(value) not in self._known:
            self._known[id(value)] = build(self, value)
        return self._known[id(value)]

    def _constant(self, index: int) -> tuple[Any, Type]:
        value = self.value(self._constants.entries[index].value)
        return value, run_time_type(value)

    def _list(self, value: list[Any]) -> list[Any]:
        return [self.value(item) for item in value]

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([self.value(item) for item in value])

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in value.items()}

    def _enum_member(self, value: EnumMember) -> EnumMember:
        enum = self._code.find_class(self._names.name(value.type))
        assert isinstance(enum, EnumType)
        return EnumMember(enum, value.name, value.value)

    def _object(self, value: ObjectValue) -> ObjectValue:
        class_ = self._code.find_class(self._names.name(value.type))
        assert isinstance(class_, ClassType)
        found = self._known[id(value)] = ObjectValue(class_)
        if value.state is not None:
            found.state = self._state(value.state, class_)
        found.slots = {name: self.value(slot) for name, slot in value.slots.items()}
        return found

    def _state(self, state: TypedValue, class_: ClassType) -> TypedValue:
        type_ = class_.methods["__getstate__"].schema.return_type
        return TypedValue(self.value(state.value), type_, always_held_parts(class_))


_BUILDERS: dict[type, Any] = {
    list: _Rereading._list,
    tuple: _Rereading._tuple,
    dict: _Rereading._dict,
    EnumMember: _Rereading._enum_member,
    ObjectValue: _Rereading._object,
}
