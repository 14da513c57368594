"""Differences between two programs: modules, classes, functions, attributes and operators."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.analyses.encoding import encode
from tsarchive.diffing.definitions import (
    DefinitionComparison,
    Findings,
    compare_values,
    joined,
)
from tsarchive.diffing.modules import Tree, definition_key, paired
from tsarchive.diffing.operators import operators_of_one
from tsarchive.diffing.report import Change, OperatorUse
from tsarchive.diffing.translation import Renamings
from tsarchive.formats.contents import Contents, Definition, Outline, Routine, TensorContent

Digest = Callable[[str], str]
_CONSTANTS: Final = "CONSTANTS."
_OF_MEMBERS: Final = ("attribute", "attribute type")


class _Pair(NamedTuple):
    """Two definitions that are compared, the path where they are met first, and the others.

    ``modules`` are the names of modules in that before, and in that after.
    """

    where: str
    before: Definition
    after: Definition
    members: frozenset[str] = frozenset()
    modules: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()
    also: tuple[str, ...] = ()


class RoutinePair(NamedTuple):
    """A function or method of before, and that of after, None where there is none.

    ``where`` is the path of the module that has it, with its name; ``name`` its qualified name, and
    ``name_after`` that of the function or method of after.
    """

    where: str
    name: str
    before: Routine
    after: Routine | None
    name_after: str


class ProgramComparison:
    """Compares the outlines of two files. ``digests`` give those of tensors, by name.

    ``known_as`` are names of definitions of after, for those that are called otherwise in its file.
    With ``pairs_unlike``, constants of the table that differ count as one that has changed, and
    code that names them as the same; without it, such code differs.
    """

    def __init__(
        self,
        before: Contents,
        after: Contents,
        digests: tuple[Digest, Digest],
        known_as: Mapping[str, str] = MappingProxyType({}),
        *,
        pairs_unlike: bool = True,
    ) -> None:
        self._pairs_unlike = pairs_unlike
        self._tensors = before.tensors, after.tensors
        self._outlines = before.outline, Renamings({**known_as}).outline(after.outline)
        self._digests = digests
        self._trees = (
            Tree(self._outlines[0], self._tensors[0], digests[0]),
            Tree(self._outlines[1], self._tensors[1], digests[1]),
        )
        self.pairing = paired(*self._trees)
        modules = self._outlines[0].modules
        classes = {path: module.definition.name for path, module in modules.items()}
        self.names = Renamings(paths=self.pairing.after, classes=classes)
        self._pairs = [*self._all_pairs()]
        self._rename()

    # Which is which

    def _all_pairs(self) -> Iterator[_Pair]:
        """Yield definitions that modules have, each pair once, and those that no module has."""
        found: dict[tuple[int, int], _Pair] = {}
        for own, other in self.pairing.after.items():
            modules = self._outlines[0].modules[own], self._outlines[1].modules[other]
            key = id(modules[0].definition), id(modules[1].definition)
            if known := found.get(key):
                found[key] = known._replace(also=(*known.also, other))
                continue
            members = frozenset(modules[0].attributes) | frozenset(modules[1].attributes)
            children = self._trees[0].children[own], self._trees[1].children[other]
            inner = frozenset(children[0]), frozenset(children[1])
            found[key] = _Pair(other, modules[0].definition, modules[1].definition, members, inner)
        yield from found.values()
        yield from self._others()

    def _others(self) -> Iterator[_Pair]:
        """Pair functions and types: equal ones of one name, then by name, then equal ones."""
        own, others = ([*outline.definitions] for outline in self._outlines)
        for key in (definition_key, _named, _nameless):
            waiting: dict[Any, deque[Definition]] = defaultdict(deque)
            for definition in others:
                waiting[key(definition)].append(definition)
            found = [
                (definition, waiting[key(definition)].popleft())
                for definition in own
                if waiting[key(definition)]
            ]
            yield from (_Pair(after.name, before, after) for before, after in found)
            paired = {id(definition) for pair in found for definition in pair}
            own, others = ([d for d in side if id(d) not in paired] for side in (own, others))
        self._alone = own, others

    def _rename(self) -> None:
        """Note what has another name after."""
        names = self.names
        for _, before, after, *_ in self._pairs:
            if before.name != after.name:
                names.definitions.setdefault(before.name, after.name)
        for own, other in self.pairing.moved:
            parents = own.rpartition("."), other.rpartition(".")
            if self.pairing.after.get(parents[0][0]) == parents[1][0]:
                class_ = self._outlines[0].modules[parents[0][0]].definition.name
                names.members.setdefault((class_, parents[0][2]), parents[1][2])
        for path in self.pairing.removed:
            self._free_name(path)
        names.constants.update(self._constants())
        for own, other in self.pairing.after.items():
            names.members.update(self._renamed_members(own, other))

    def _free_name(self, path: str) -> None:
        """Note that a module is gone whose name another has after."""
        parent, _, name = path.rpartition(".")
        class_ = self._outlines[0].modules[parent].definition.name
        renamed = {new for (owner, _), new in self.names.members.items() if owner == class_}
        if name in renamed and (class_, name) not in self.names.members:
            self.names.members[class_, name] = f"{name} before"

    def _renamed_members(self, own: str, other: str) -> Iterator[tuple[tuple[str, str], str]]:
        """Pair attributes of one side alone that are equal but for their names, in order."""
        sides = (self._outlines[0].modules[own], own), (self._outlines[1].modules[other], other)
        class_ = sides[0][0].definition.name
        known = {self.names.member(class_, name) for name in sides[0][0].attributes}
        new = [name for name in sides[1][0].attributes if name not in known]
        for name in sides[0][0].attributes if new else ():
            if self.names.member(class_, name) in sides[1][0].attributes:
                continue
            key = self._slot(0, own, name)
            same = next((each for each in new if self._slot(1, other, each) == key), None)
            if same is not None:
                new.remove(same)
                yield (class_, name), same

    def _slot(self, side: int, path: str, name: str) -> Any:
        """Return what an attribute is: its type and roles, its value, and the tensors in it."""
        module = self._outlines[side].modules[path]
        slot = module.definition.attributes.get(name)
        value = module.attributes[name]
        return repr(slot), encode(value), self._contents_below(side, joined(path, name))

    def _constants(self) -> Iterator[tuple[str, str]]:
        """Pair constants of the table: equal ones, then the others in order."""
        own, others = ([*outline.constants] for outline in self._outlines)
        keys: dict[Any, deque[str]] = defaultdict(deque)
        for name in others:
            keys[self._content(1, name)].append(name)
        found = {name: keys[key].popleft() for name in own if keys[key := self._content(0, name)]}
        yield from found.items()
        paired = {*found.values()}
        left = [name for name in own if name not in found]
        free = [name for name in others if name not in paired]
        if not self._pairs_unlike:
            yield from ((name, f"{name} before") for name in left)
        elif len(left) == len(free):
            yield from zip(left, free, strict=True)

    def _content(self, side: int, name: str) -> Any:
        """Return what a constant is: its form, and the digests of the tensors in it."""
        return encode(self._outlines[side].constants[name]), self._contents_below(side, name)

    def _contents_below(self, side: int, name: str) -> Any:
        """Return the digests of what is called so, or begins so."""
        inside = self._trees[side].tensors_called(name)
        return repr([[t.removeprefix(name), self._digests[side](t)] for t in inside])

    @property
    def paths(self) -> Iterable[str]:
        """The paths of modules in their order: those after, then those that were removed."""
        return dict.fromkeys([*self._outlines[1].modules, *self._outlines[0].modules])

    def routines(self) -> Iterator[RoutinePair]:
        """Yield the functions and methods of before, in the names of after."""
        alone = [_Pair(each.name, each, _nothing(each.name)) for each in self._alone[0]]
        gone = (
            _Pair(path, module.definition, _nothing(module.definition.name))
            for path, module in self._outlines[0].modules.items()
            if path not in self.pairing.after
        )
        for pair in (*self._pairs, *gone, *alone):
            for name, routine in self.names.definition(pair.before).routines.items():
                after = pair.after.routines.get(name)
                where, own = joined(pair.where, name), joined(pair.before.name, name)
                yield RoutinePair(where, own, routine, after, joined(pair.after.name, name))

    def values(self) -> Iterator[tuple[str, Definition, Definition]]:
        """Yield named tuples and enums by their names before, as they are before, in the names of
        after, and as they are after."""
        for pair in self._pairs:
            if pair.before.traits["kind"] in ("named tuple", "enum"):
                yield pair.before.name, self.names.definition(pair.before), pair.after

    # Tensors

    @property
    def tensor_names(self) -> dict[str, str]:
        """The names after of tensors that are called otherwise now."""
        renamed = {name: self._renamed(name) for name in self._tensors[0]}
        return {name: other for name, other in renamed.items() if name != other}

    def _renamed(self, name: str) -> str:
        if name.startswith(_CONSTANTS):
            own = ".".join(name.split(".")[:2])
            return self.names.constants.get(own, own) + name[len(own) :]
        return self.names.path(name)

    def compared_tensors(
        self,
    ) -> tuple[Mapping[str, TensorContent], Mapping[str, TensorContent]]:
        """Return the tensors of each side, without those of modules that the other lacks."""
        gone = {path for root in self.pairing.removed for path in self._trees[0].below(root)}
        new = {path for root in self.pairing.added for path in self._trees[1].below(root)}
        return (
            _without(self._trees[0], self._tensors[0], gone - self.pairing.after.keys()),
            _without(self._trees[1], self._tensors[1], new - {*self.pairing.after.values()}),
        )

    # Differences

    def found(self) -> Findings:
        """Return all differences."""
        found = Findings()
        found.changes += self._modules()
        for own, other in self.pairing.after.items():
            modules = self._outlines[0].modules[own], self._outlines[1].modules[other]
            found.changes += self._renamed_attributes(own, other)
            for change in compare_values(other, *modules, self.names):
                is_order = change.kind == "attribute order" and self._is_reordered(other)
                (found.derived if is_order else found.changes).append(change)
        told = {change.where for change in found.changes if change.kind == "attribute"}
        for pair in self._pairs:
            self._definitions(pair, found)
        found.derived += self._appearing()
        found.changes = [*_once(found.changes, told)]
        return found

    def _modules(self) -> Iterator[Change]:
        for before, after in self.pairing.moved:
            yield Change("module", after, before, after, "structure")
        for path in self.pairing.removed:
            yield Change("module", path, path, None, "structure")
        for path in self.pairing.added:
            yield Change("module", path, None, path, "structure")

    def _renamed_attributes(self, own: str, other: str) -> Iterator[Change]:
        module = self._outlines[0].modules[own]
        for name in module.attributes:
            renamed = self.names.member(module.definition.name, name)
            if renamed != name:
                paths = joined(own, name), joined(other, renamed)
                yield Change("attribute renamed", paths[1], *paths, "structure")

    def _definitions(self, pair: _Pair, found: Findings) -> None:
        key = self._trees[0].key_of(pair.before), self._trees[1].key_of(pair.after)
        if key[0] == key[1]:
            return
        own = {self.names.member(pair.before.name, name) for name in pair.modules[0]}
        modules = pair.modules[1] | own
        comparison = DefinitionComparison(pair.where, self.names, pair.members, modules)
        comparison.compare(pair.before, pair.after)
        for change in comparison.found.changes:
            target = found.derived if self._follows(pair, change) else found.changes
            target.append(_everywhere(pair, change))
        found.derived += (_everywhere(pair, change) for change in comparison.found.derived)
        found.methods += comparison.found.methods

    def _follows(self, pair: _Pair, change: Change) -> bool:
        """Whether a change follows from modules that came, went or moved in one."""
        if change.kind == "attribute order":
            return self._is_reordered(change.where)
        sizes = tuple(map(len, pair.modules))
        is_size = change.kind == "constant" and change.where == joined(pair.where, "__len__")
        return is_size and sizes[0] != sizes[1] and (change.before, change.after) == sizes

    def _is_reordered(self, path: str) -> bool:
        """Whether a module that moved is now in that of this path."""
        return any(after.rpartition(".")[0] == path for _, after in self.pairing.moved)

    def _appearing(self) -> Iterator[Change]:
        """Yield functions and types of one side alone: something mentions them, which is told."""
        for definition in self._alone[0]:
            yield Change(_kind(definition), definition.name, definition.name, None, "code")
        for definition in self._alone[1]:
            yield Change(_kind(definition), definition.name, None, definition.name, "code")

    def operators(self) -> tuple[list[OperatorUse], list[OperatorUse]]:
        """Return the operators that are gained, and those that are lost."""
        before, after = (_routines(outline) for outline in self._outlines)
        return operators_of_one(after, before), operators_of_one(before, after)


def _everywhere(pair: _Pair, change: Change) -> Change:
    """Return a change with the places of the other modules that share the class."""
    name = change.where.removeprefix(f"{pair.where}.") if pair.where else change.where
    if name == pair.where:
        return replace(change, also=pair.also)
    return replace(change, also=tuple(joined(path, name) for path in pair.also))


def _named(definition: Definition) -> Any:
    return definition.name, definition.traits.get("kind")


def _nameless(definition: Definition) -> Any:
    return definition_key(definition, has_name=False)


def _nothing(name: str) -> Definition:
    return Definition(name, {}, {}, {}, {})


def _kind(definition: Definition) -> str:
    kind = str(definition.traits.get("kind"))
    return "class" if kind.startswith(("class", "module")) else kind


def _without(
    tree: Tree, tensors: Mapping[str, TensorContent], paths: set[str]
) -> Mapping[str, TensorContent]:
    return {name: item for name, item in tensors.items() if tree.module_of(name) not in paths}


def _once(changes: list[Change], told: set[str]) -> Iterator[Change]:
    """Yield changes but those of members of a class that are told of the values in modules, and
    those of one constant that a line of the user's source has several times."""
    seen: set[str] = set()
    for change in changes:
        is_of_class = change.part == "code" and change.kind in _OF_MEMBERS
        is_of_line = change.kind == "constant" and any(change.source)
        if (is_of_class and change.where in told) or (is_of_line and repr(change) in seen):
            continue
        seen.update([repr(change)] * is_of_line)
        yield change


def _routines(outline: Outline) -> dict[str, Routine]:
    """Return all functions by where they are met first."""
    found: dict[str, Routine] = {}
    seen: set[int] = set()
    for path, module in outline.modules.items():
        if id(module.definition) not in seen:
            seen.add(id(module.definition))
            for name, routine in module.definition.routines.items():
                found[joined(path, name)] = routine
    for definition in outline.definitions:
        for name, routine in definition.routines.items():
            found.setdefault(joined(definition.name, name), routine)
    return found
