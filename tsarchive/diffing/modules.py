"""Which module of one model is which of another: by path, or by what it holds."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, Final

from tsarchive.analyses.encoding import Plain, encode
from tsarchive.diffing.routines import body_key, digest_of
from tsarchive.formats.contents import Definition, Outline, Routine
from tsarchive.ir.names import closest

_SEPARATOR: Final = "."
# More pairs of modules are not weighed by the tensors that they share.
_MOST_PAIRS: Final = 1_000


class Tree:
    """The modules of one side. ``digest`` gives that of a tensor by its name, and is asked only
    where modules are to be told apart by what they hold."""

    def __init__(
        self, outline: Outline, tensors: Mapping[str, Any], digest: Callable[[str], str]
    ) -> None:
        self.outline = outline
        self._names = tensors
        self._digest = digest
        self._keys: dict[str, bytes] = {}
        self._forms: dict[str, bytes] = {}
        self._definitions: dict[int, str] = {}

    @cached_property
    def children(self) -> Mapping[str, Mapping[str, str]]:
        """The paths of the modules in each module, by name."""
        found: dict[str, dict[str, str]] = {path: {} for path in self.outline.modules}
        for path in self.outline.modules:
            if path:
                parent = self.module_of(path.rpartition(_SEPARATOR)[0])
                found.setdefault(parent, {})[path.removeprefix(f"{parent}{_SEPARATOR}")] = path
        return found

    @cached_property
    def tensors(self) -> Mapping[str, list[str]]:
        """The names of the tensors of each module, those of modules in it aside."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            found[self.module_of(name)].append(name)
        return found

    def tensors_called(self, name: str) -> list[str]:
        """Return the tensors of that name, and those inside of what has it."""
        first = bisect_left(self._sorted, name)
        behind = (self._sorted[place] for place in range(first, len(self._sorted)))
        alike = takewhile(lambda each: each.startswith(name), behind)
        return [each for each in alike if each == name or each.startswith(f"{name}{_SEPARATOR}")]

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._names)

    def module_of(self, name: str) -> str:
        """Return the path of the module that has what is called so; a module has itself."""
        return closest(name, self.outline.modules)

    def below(self, path: str) -> Iterator[str]:
        """Yield the path of a module, and those of all modules in it."""
        yield path
        for inner in self.children[path].values():
            yield from self.below(inner)

    def key(self, path: str) -> bytes:
        """Return what is equal for modules that are equal with all in them."""
        known = self._keys.get(path)
        if known is None:
            tensors = [[_within(path, name), self._digest(name)] for name in self.tensors[path]]
            known = self._keys[path] = self._hashed(path, tensors, self.key)
        return known

    def form(self, path: str) -> bytes:
        """Return what is equal for modules that are equal but for the elements of tensors."""
        known = self._forms.get(path)
        if known is None:
            tensors = sorted(_within(path, name) for name in self.tensors[path])
            known = self._forms[path] = self._hashed(path, tensors, self.form)
        return known

    def _hashed(self, path: str, tensors: Plain, of: Callable[[str], bytes]) -> bytes:
        """Return the hash of a module that has these tensors, and of those in it."""
        module = self.outline.modules[path]
        inner = [[name, of(child)] for name, child in self.children[path].items()]
        own: list[Any] = [self.key_of(module.definition), module.attributes, tensors, inner]
        return hashlib.sha256(encode(own)).digest()

    def digests(self, path: str) -> set[tuple[str, str]]:
        """Return the names and digests of the tensors in a module and those below."""
        names = (name for inner in self.below(path) for name in self.tensors[inner])
        return {(_within(path, name), self._digest(name)) for name in names}

    def has_tensors(self, path: str) -> bool:
        """Return whether there is a tensor in a module or in those below."""
        return any(self.tensors[inner] for inner in self.below(path))

    def key_of(self, definition: Definition) -> str:
        """Return what is equal for equal definitions."""
        known = self._definitions.get(id(definition))
        if known is None:
            known = self._definitions[id(definition)] = definition_key(definition)
        return known


def definition_key(definition: Definition, *, has_name: bool = True) -> str:
    """Return what is equal for equal definitions, with their names or without."""
    routines = {name: routine_key(routine) for name, routine in definition.routines.items()}
    own = definition.name if has_name else ""
    parts = own, [*definition.traits.items()], [*definition.attributes.items()]
    return digest_of((parts, sorted(definition.constants.items()), sorted(routines.items())))


def routine_key(routine: Routine) -> str:
    """Return what is equal for equal functions, and only there."""
    return digest_of((routine.arguments, routine.returns, body_key(routine.body)))


def are_alike(before: Definition, after: Definition) -> bool:
    """Return whether two classes have members of the same names."""
    return all(
        own.keys() == other.keys()
        for own, other in (
            (before.attributes, after.attributes),
            (before.constants, after.constants),
            (before.routines, after.routines),
        )
    )


def _within(path: str, name: str) -> str:
    return name.removeprefix(f"{path}{_SEPARATOR}") if path else name


@dataclass(frozen=True, slots=True)
class Pairing:
    """``after`` leads from the path of each module before to that of the same module after.

    ``moved`` are the pairs whose parents or names differ, without those inside of others;
    ``removed`` and ``added`` the modules that one side alone has, likewise.
    """

    after: dict[str, str] = field(default_factory=dict)
    moved: list[tuple[str, str]] = field(default_factory=list)
    removed: dict[str, None] = field(default_factory=dict)
    added: dict[str, None] = field(default_factory=dict)


def paired(before: Tree, after: Tree) -> Pairing:
    """Pair the modules of two models."""
    finder = _Pairs(before, after)
    if "" in before.outline.modules and "" in after.outline.modules:
        finder.pair("", "")
    finder.find_moved()
    finder.pair_replaced()
    return finder.found


class _Pairs:
    def __init__(self, before: Tree, after: Tree) -> None:
        self._before, self._after = before, after
        self.found = Pairing()
        self._taken: set[str] = set()

    def pair(self, before: str, after: str) -> None:
        """Pair two modules, and those in them as far as they are found there."""
        self.found.after[before] = after
        own, others = self._before.children[before], self._after.children[after]
        names = {**own}, {**others}
        if own.keys() != others.keys():
            self._pair_equal(*names)
        for name in own:
            if name in names[0] and name in names[1] and self._is_one(own[name], others[name]):
                self.pair(names[0].pop(name), names[1].pop(name))
        self.found.removed.update(dict.fromkeys(names[0].values()))
        self.found.added.update(dict.fromkeys(names[1].values()))

    def _is_one(self, before: str, after: str) -> bool:
        """Whether modules of one name may be one; otherwise that before may be elsewhere now."""
        own = self._before.outline.modules[before].definition
        other = self._after.outline.modules[after].definition
        return own.name == other.name or are_alike(own, other)

    def pair_replaced(self) -> None:
        """Pair modules of one name in one parent that are nowhere else: the class is another."""
        for path in [*self.found.removed]:
            parent, _, name = path.rpartition(_SEPARATOR)
            after = self.found.after.get(parent)
            wanted = f"{after}{_SEPARATOR}{name}" if after else name
            if after is not None and wanted in self.found.added:
                del self.found.removed[path], self.found.added[wanted]
                self.pair(path, wanted)

    def _pair_equal(self, own: dict[str, str], others: dict[str, str]) -> None:
        """Pair modules that are equal, those of one name first, and take them out."""
        keys = {name: self._after.key(path) for name, path in others.items()}
        for name in [*own]:
            if keys.get(name) == self._before.key(own[name]):
                self.pair(own.pop(name), others.pop(name))
                del keys[name]
        for name in [*own]:
            key = self._before.key(own[name])
            same = next((other for other in others if keys[other] == key), None)
            if same is not None:
                self.found.moved.append((own[name], others[same]))
                self.pair(own.pop(name), others.pop(same))
        self._pair_alike(own, others)

    def _pair_alike(self, own: dict[str, str], others: dict[str, str]) -> None:
        """Pair modules that differ in some of their tensors alone: those that share most, and of
        these those of one name first."""
        if len(own) * len(others) > _MOST_PAIRS:
            return
        shared = (
            (name, other, self._shared(own[name], others[other]))
            for name in own
            for other in others
        )
        rows = sorted(
            (row for row in shared if row[2]), key=lambda row: (-row[2], row[0] != row[1])
        )
        for name, other, _ in rows:
            if name in own and other in others:
                if name != other:
                    self.found.moved.append((own[name], others[other]))
                self.pair(own.pop(name), others.pop(other))

    def _shared(self, before: str, after: str) -> int:
        """Return how many tensors two modules share that are else alike, 0 where they are not."""
        if self._before.form(before) != self._after.form(after):
            return 0
        return len(self._before.digests(before) & self._after.digests(after))

    def find_moved(self) -> None:
        """Pair equal modules among all that one side alone has, or that are in such."""
        if not self.found.added or not self.found.removed:
            return
        by_key: dict[bytes, deque[str]] = defaultdict(deque)
        for root in self.found.added:
            for path in self._after.below(root):
                by_key[self._after.key(path)].append(path)
        for root in [*self.found.removed]:
            self._move(root, by_key)

    def _move(self, path: str, by_key: Mapping[bytes, deque[str]]) -> None:
        waiting = by_key.get(self._before.key(path), deque())
        while waiting and waiting[0] in self._taken:
            waiting.popleft()
        if not waiting or not self._may_be(path, waiting[0]):
            for inner in self._before.children[path].values():
                self._move(inner, by_key)
            return
        wanted = waiting.popleft()
        self.found.moved.append((path, wanted))
        self.found.removed.pop(path, None)
        self.found.added.pop(wanted, None)
        self._taken.update(self._after.below(wanted))
        self.pair(path, wanted)

    def _may_be(self, before: str, after: str) -> bool:
        """Whether equal modules are one: those without tensors are alike in many places."""
        is_whole = before in self.found.removed and after in self.found.added
        return is_whole or self._before.has_tensors(before)
