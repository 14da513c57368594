"""Differences between two classes, functions or types, and between the values of modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.modules import are_alike, routine_key
from tsarchive.diffing.plain_values import as_written, is_same, value_changes, without_tensors
from tsarchive.diffing.report import Change, MethodChange
from tsarchive.diffing.routines import compare_routines
from tsarchive.diffing.side_by_side import side_by_side
from tsarchive.diffing.translation import Renamings
from tsarchive.formats.contents import Definition, ModuleContent, Routine
from tsarchive.ir.names import unmangled_text

_HOOKS: Final = ("forward pre-hooks", "forward hooks")
_TYPE: Final = "attribute type"
_CLASSES: Final = frozenset({"class", "module"})
# Traits of programs that are no TorchScript, which say behind it of what they are.
_NAMED_TRAITS: Final = frozenset({"input", "range", "guard", "nesting", "value", "plan"})
_ROLES: Final = ("parameter", "buffer")


@dataclass(slots=True)
class Findings:
    """Changes, those that follow from others, and functions side by side."""

    changes: list[Change] = field(default_factory=list)
    derived: list[Change] = field(default_factory=list)
    methods: list[MethodChange] = field(default_factory=list)


def joined(path: str, name: str) -> str:
    """Return the path of a member."""
    return f"{path}.{name}" if path and name else path or name


def compare_values(
    path: str, before: ModuleContent, after: ModuleContent, names: Renamings
) -> Iterator[Change]:
    """Yield the differences of the attributes of a module; tensors are told by their names."""
    own_class = before.definition.name
    own = {names.member(own_class, name): value for name, value in before.attributes.items()}
    slots_before = before.definition.attributes.items()
    declared = {names.member(own_class, name): slot for name, slot in slots_before}
    for name in dict.fromkeys([*own, *after.attributes]):
        where = joined(path, name)
        if name in own and name in after.attributes:
            slots = declared.get(name), after.definition.attributes.get(name)
            is_declared = _has_one_type(*slots, names)
            changes = _value(where, names.value(own[name]), after.attributes[name])
            yield from (change for change in changes if is_declared or change.kind != _TYPE)
        elif name in own:
            yield from _alone(where, own[name], is_gone=True)
        else:
            yield from _alone(where, after.attributes[name], is_gone=False)
    order = [names.member(own_class, name) for name in before.order]
    slots_after = after.definition.attributes
    kept = _kept(declared, slots_after), _kept(slots_after, declared)
    if not [*_order(path, *kept)]:  # which is told of the class
        known = {*kept[0], *({*order} - declared.keys() - slots_after.keys())}
        orders = ([name for name in side if name in known] for side in (order, after.order))
        yield from _order(path, *orders)


def _has_one_type(own: Plain, other: Plain, names: Renamings) -> bool:
    """Whether an attribute has one type in both classes; otherwise its value may tell another."""
    before, after = _slot(own), _slot(other)
    return before is None or after is None or names.type(before[0]) == after[0]


def _value(where: str, before: Plain, after: Plain) -> Iterator[Change]:
    for path, own, other, is_type, is_order in value_changes(before, after, where):
        if is_type:
            yield Change(_TYPE, path, own, other, "structure")
        elif is_order:
            yield Change("order of keys", path, as_written(own), as_written(other), "structure")
        elif not is_same(without_tensors(own), without_tensors(other)):
            yield Change("attribute", path, as_written(own), as_written(other), "structure")


def _alone(where: str, value: Plain, *, is_gone: bool) -> Iterator[Change]:
    """Yield an attribute of one side, but for a tensor."""
    if value is not None and without_tensors(value) is None:
        return
    before, after = (as_written(value), None) if is_gone else (None, as_written(value))
    yield Change("attribute", where, before, after, "structure")


def _order(path: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Yield whether what both have is in another order."""
    both = {*before} & {*after}
    own, others = ([name for name in side if name in both] for side in (before, after))
    if own != others:
        yield Change("attribute order", path, own, others, "structure")


def _kept(slots: Mapping[str, Plain], others: Mapping[str, Plain]) -> list[str]:
    """Return the attributes of a class that have their roles in another: those decide the order."""
    return [name for name, slot in slots.items() if _roles(slot) == _roles(others.get(name))]


def _roles(slot: Plain) -> Sequence[Any]:
    return (_slot(slot) or [None])[1:]


class DefinitionComparison:
    """Compares two definitions, the one before in the ``names`` of after.

    ``members`` are those of which something else tells that they come and go, and ``modules``
    those that are modules, which are told at their own paths.
    """

    def __init__(
        self,
        path: str,
        names: Renamings,
        members: frozenset[str] = frozenset(),
        modules: frozenset[str] = frozenset(),
    ) -> None:
        self.found = Findings()
        self._changed_constants: list[Change] = []
        self._path = path
        self._names = names
        self._members = members
        self._modules = modules

    def compare(self, definition: Definition, after: Definition) -> None:
        """Note all differences; of classes that have little in common, that there is another."""
        before = self._names.definition(definition)
        if definition.name != after.name:
            self._add("class", self._path, definition.name, after.name)
            if not are_alike(before, after):
                return
        self._traits(before, after)
        self._attributes(before.attributes, after.attributes)
        self._constants(before.constants, after.constants)
        self._routines(before, after)

    def _add(self, kind: str, where: str, before: Plain, after: Plain, part: Any = "code") -> None:
        self.found.changes.append(Change(kind, where, before, after, part))

    def _traits(self, before: Definition, after: Definition) -> None:
        names = dict.fromkeys([*before.traits, *after.traits])
        for name in names:
            own, other = before.traits.get(name), after.traits.get(name)
            if is_same(own, other):
                continue
            if name == "kind":
                self._add("class", self._path, own, other)
            elif (kind := name.partition(" "))[0] in _NAMED_TRAITS and kind[2]:
                where = joined(self._path, kind[2])
                self._add(kind[0], where, as_written(own), as_written(other), "structure")
            elif name in _HOOKS:
                self._add("hook", self._path, as_written(own), as_written(other))
            else:
                self._add("signature", joined(self._path, name), _signature(own), _signature(other))

    def _attributes(self, before: Mapping[str, Plain], after: Mapping[str, Plain]) -> None:
        for name in dict.fromkeys([*before, *after]):
            where = joined(self._path, name)
            own, other = (_slot(slots.get(name)) for slots in (before, after))
            if own is None or other is None:
                if name not in self._members | self._modules:
                    self._add("attribute", where, own and own[0], other and other[0])
                continue
            if own[0] != other[0] and name not in self._modules:
                self._add(_TYPE, where, own[0], other[0])
            if own[1:] != other[1:]:
                self._add("attribute role", where, _role(own), _role(other))
        self.found.changes += _order(self._path, _kept(before, after), _kept(after, before))

    def _constants(self, before: Mapping[str, Plain], after: Mapping[str, Plain]) -> None:
        for name in dict.fromkeys([*before, *after]):
            where = joined(self._path, name)
            own, other = before.get(name), after.get(name)
            if is_same(own, other):
                continue
            (type_, value), (other_type, other_value) = _typed(own), _typed(other)
            if own is None or other is None or not is_same(value, other_value):
                self._add("constant", where, as_written(value), as_written(other_value))
                self._changed_constants.append(self.found.changes[-1])
            else:
                self._add("constant", where, type_, other_type)

    def _routines(self, before: Definition, after: Definition) -> None:
        hooks = {str(name) for d in (before, after) for key in _HOOKS for name in _list(d, key)}
        for name in dict.fromkeys([*before.routines, *after.routines]):
            where = joined(self._path, name)
            own, other = before.routines.get(name), after.routines.get(name)
            if after.traits["kind"] in _CLASSES:
                own, other = own and _bound(own), other and _bound(other)
            if own is not None and other is not None:
                self._routine(where, own, other)
                continue
            kind = "hook" if name in hooks else "method"
            self._add(kind, where, own and _signature_of(own), other and _signature_of(other))
            self.found.methods.append(MethodChange(where, side_by_side(own, other)))

    def _is_of_constant(self, change: Change) -> bool:
        """Whether a constant in code is one of the class, which the compiler writes there."""
        if change.kind != "constant":
            return False
        pair = repr((change.before, change.after))
        return any(pair in _pairs_in(other) for other in self._changed_constants)

    def _routine(self, where: str, before: Routine, after: Routine) -> None:
        if routine_key(before) == routine_key(after):
            return
        self.found.changes += _signature_changes(where, before, after)
        found = compare_routines(where, before, after, self._is_of_constant)
        # Where the text is the same, others tell what its names stand for.
        is_one_text = _have_one_text(before, after)
        for change in found.changes:
            follows = is_one_text and change.kind == "code"
            (self.found.derived if follows else self.found.changes).append(change)
        self.found.derived += (*found.told, *found.derived)
        if (found.changes or found.told) and not is_one_text:
            rows = side_by_side(before, after, *found.lines)
            self.found.methods.append(MethodChange(where, rows))


def routine_changes(where: str, before: Routine, after: Routine) -> Sequence[Change]:
    """Return how two methods or functions differ, whose names are those of after.

    What only follows from other changes is returned where there is nothing else; there is no
    change where the functions are equal, and only there.
    """
    if routine_key(before) == routine_key(after):
        return []
    found = compare_routines(where, before, after, lambda _: False)
    changes = [*_signature_changes(where, before, after), *found.changes]
    return changes or found.derived or [Change("code", where, "", "", "code")]


def _pairs_in(change: Change) -> Iterator[str]:
    """Yield both values of a constant, and those of its items."""
    yield repr((change.before, change.after))
    match change.before, change.after:
        case (list() | tuple()) as own, (list() | tuple()) as others if len(own) == len(others):
            yield from map(repr, zip(own, others, strict=True))


def _have_one_text(before: Routine, after: Routine) -> bool:
    """Whether two functions are written alike; those without a text are not."""
    own, others = (
        [unmangled_text(place.text) for place in routine.lines()] for routine in (before, after)
    )
    return bool(own) and own == others


def _slot(plain: Any) -> list[Any] | None:
    return None if plain is None else [*plain]


def roles_of(slot: Sequence[Any]) -> list[str]:
    """Return what an attribute is beside its type: a parameter, a buffer, or neither."""
    return [name for name, is_one in zip(_ROLES, slot[1:], strict=False) if is_one]


def _role(slot: Sequence[Any]) -> str | None:
    return " and ".join(roles_of(slot)) or None


def _typed(plain: Any) -> tuple[Plain, Plain]:
    if plain is None:
        return None, None
    type_, value = plain
    return type_, value


def _list(definition: Definition, name: str) -> Sequence[Plain]:
    found = definition.traits.get(name, ())
    return found if isinstance(found, list | tuple) else ()


def _signature_changes(where: str, before: Routine, after: Routine) -> Iterator[Change]:
    """Yield other defaults one by one, and all else of the signature as one."""
    is_other = [*before.returns] != [*after.returns]
    for own, other in zip_longest(map(_slot, before.arguments), map(_slot, after.arguments)):
        if own is None or other is None or own[:2] != other[:2]:
            is_other = True
        elif not is_same(own[2], other[2]):
            yield Change("default", f"{where}({own[0]})", _default(own), _default(other), "code")
    if is_other:
        yield Change("signature", where, _signature_of(before), _signature_of(after), "code")


def _default(argument: Sequence[Any]) -> Plain:
    return as_written(argument[2][0]) if argument[2] else None


def _bound(routine: Routine) -> Routine:
    """Return a method without the type of its first argument, which is its class."""
    first, *others = map(_slot, routine.arguments)
    assert first is not None
    return routine._replace(arguments=[[first[0], "", first[2]], *others])


def _signature_of(routine: Routine) -> str:
    return _signature([routine.arguments, routine.returns]) or ""


def _signature(plain: Any) -> str | None:
    """Return a signature as TorchScript writes it."""
    if not isinstance(plain, list | tuple):
        return None if plain is None else str(plain)
    arguments, returns = plain
    shown = ", ".join(map(_argument, arguments))
    result = ", ".join(map(str, returns))
    return f"({shown}) -> {result if len(returns) == 1 else f'({result})'}"


def _argument(plain: Sequence[Any]) -> str:
    name, type_, default = plain
    shown = f"={as_written(default[0])!r}" if default else ""
    return f"{name}: {type_}{shown}" if type_ else str(name)
