"""Whether a decompiled package, scripted again, has the code of its archive.

Code is compared as graphs: names of variables, of classes and of files are no part of it, nor is
where an attribute is read that no code sets, or what has no effect and no result that is used.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Literal

from tsarchive.analyses.encoding import Plain
from tsarchive.describing.text import plural
from tsarchive.diffing.definitions import routine_changes
from tsarchive.diffing.programs import ProgramComparison, RoutinePair
from tsarchive.diffing.report import Change
from tsarchive.errors import ArchiveError
from tsarchive.fingerprinting import Readable, readable_contents, tensor_digest
from tsarchive.formats.contents import Definition, Routine
from tsarchive.formats.torchscript.contents import TorchScriptContents
from tsarchive.ir.schema import FunctionSchema, parse_schema
from tsarchive.reports import Report
from tsarchive.run.passes.liveness import Effects

from .copied_natives import runtime_module
from .formatting import formatted
from .layout import written
from .naming import identifier
from .normalizing import Calls, Normalizing
from .rescripting import WHOLE, Request
from .settling import bodies_of, names_read, names_set, routines_of_torch, settled
from .syntax import HELPERS

_SCRIPT: Final = """
import json, sys
from tsarchive.cli.options import import_all
import_all(json.loads(sys.argv[2]))
from tsarchive.decompiler.rescripting import main
main(sys.argv[1])
"""


@dataclass(frozen=True, slots=True)
class MethodCheck:
    """A method or function of the archive: what becomes of it when the package is scripted.

    So is a named tuple or an enum whose fields or members differ. ``name`` is its qualified name in
    the archive, ``where`` the path of the first module that has it (of others their name). Where
    code ``differs``, ``before`` is the first place in the archive that does and ``after`` the same
    place in the package, as TorchScript writes them; None where nothing stands there. ``reason``
    says why a method is ``not scripted``.

    Of what is a ``library``'s class or function in the package, the code is that of the library's
    release here. That it does what the archive's does was proven when the package was written.

        >>> done = tsarchive.decompile("net.pt", "checked", check=True, force=True)
        >>> [(method.where, method.outcome) for method in done.check.methods]
        [('forward', 'equal'), ('head.forward', 'equal')]
    """

    name: str
    where: str
    outcome: Literal["equal", "library", "differs", "not scripted"]
    before: str | None = None
    after: str | None = None
    reason: str = ""


_SAME: Final = ("equal", "library")


@dataclass(frozen=True, slots=True, repr=False)
class CodeCheck(Report):
    """All methods and functions of an archive, in the order of its modules.

    What objects hold is not compared, as arguments of constructors and values of attributes.

        >>> done = tsarchive.decompile("net.pt", "checked", check=True)
        >>> {method.outcome for method in done.check.methods}
        {'equal'}
    """

    _COLUMNS = "outcome", "method", "before", "after"

    methods: tuple[MethodCheck, ...]

    @property
    def same(self) -> bool:
        """Whether all of them have their code again, but those that a library has now."""
        return all(method.outcome in _SAME for method in self.methods)

    @property
    def ok(self) -> bool:
        """The same as ``same``."""
        return self.same

    def _headline(self) -> str:
        counts = Counter(method.outcome for method in self.methods)
        outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
        return f"{plural(len(self.methods), 'method')}: {outcomes}" if counts else "no methods"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [
            (method.outcome, method.where, method.reason or method.before, method.after)
            for method in self.methods
            if method.outcome not in _SAME
        ]


def checked(
    f: str | os.PathLike[str] | BinaryIO,
    directory: str | os.PathLike[str],
    definitions: Mapping[str, str],
    operators: Mapping[str, str] = MappingProxyType({}),
    foreign: Sequence[str] = (),
    imports: Sequence[str] = (),
) -> CodeCheck:
    """Compare the code of the archive ``f`` with that of its package, scripted again.

    ``definitions`` are the classes and functions of the package in ``directory`` as the report of
    :func:`tsarchive.decompile` has them, and ``operators`` the functions that stand for operators
    of TorchScript. torch.jit takes the latter for these operators, unless somebody changed the file
    that has them. ``foreign`` are the schemas, as far as calls tell them, of operators that no
    library may have registered. A process of its own runs the package; it imports
    ``imports`` first.

    Raises ArchiveError where that process fails before it scripts anything, and what
    :func:`tsarchive.fingerprint` raises for the archive.
    """
    known = _by_name(foreign)
    with _readable(f, Effects(), known) as before, TemporaryDirectory() as folder:
        archive = _archive_in(folder)
        request = Request(
            package=os.path.abspath(directory),
            names=definitions,
            operators=operators if _has_own_helpers(directory, operators) else {},
            foreign=foreign,
            methods=[pair.name for pair in _comparison(before, before).routines()],
            archive=archive,
            failures=os.path.join(folder, "failures.json"),
        )
        failures = _scripted(request, Path(folder), imports)
        if WHOLE in failures:
            return CodeCheck(tuple(_refused(before, failures)))
        with _readable(archive, Calls(), known) as after:
            own = frozenset(definitions.values())
            names = _other_names(definitions)
            return CodeCheck(tuple(_compared(before, after, failures, names, own)))


def _of_library(method: MethodCheck, own: Collection[str]) -> MethodCheck:
    """Return the outcome of a method, which may be in none of the package's ``own`` definitions."""
    is_own = method.name in own or method.name.rpartition(".")[0] in own
    home = _home(method.name)
    is_elsewhere = home == "torch" or home not in set(map(_home, own))
    if is_own or not is_elsewhere or method.outcome == "equal":
        return method
    return dataclasses.replace(method, outcome="library")


def _is_another_module(pair: RoutinePair) -> bool:
    """Return whether the package has a class of another name, in whatever folder, where the archive
    has that of a method; or, for the method that counts them, whether it is another number of
    modules."""
    own, other = (name.split(".")[-2:] for name in (pair.name, pair.name_after))
    return own != other or (own[-1] == "__len__" and pair.after is not None)


def _home(name: str) -> str:
    """Return the package that a qualified name was defined in."""
    return name.removeprefix("__torch__.").partition(".")[0]


@contextmanager
def _readable(
    f: str | os.PathLike[str] | BinaryIO,
    effects: Effects,
    foreign: Mapping[str, Sequence[FunctionSchema]],
) -> Iterator[Readable]:
    """Open an archive whose code is what torch's executor runs of it."""
    with readable_contents(f, debug=True, whole=True) as found:
        if isinstance(found.contents, TorchScriptContents):
            normalizing = Normalizing(found.contents, found.reading, effects)
            found.contents.simplify(normalizing.function, foreign)
        yield found


def _by_name(schemas: Sequence[str]) -> dict[str, list[FunctionSchema]]:
    found: dict[str, list[FunctionSchema]] = defaultdict(list)
    for schema in map(parse_schema, schemas):
        found[schema.name].append(schema)
    return found


def _has_own_helpers(directory: str | os.PathLike[str], operators: Mapping[str, str]) -> bool:
    """Return whether the functions that stand for operators are those that decompiling writes."""
    name = f"{HELPERS}.py"
    file = Path(directory, name)
    if not operators or not file.is_file():
        return False
    own = formatted({name: written(runtime_module(operators.values()))})
    return file.read_text(encoding="utf-8") == own[name]


def _archive_in(folder: str) -> str:
    return os.path.join(folder, "scripted.pt")


def _comparison(
    before: Readable, after: Readable, known_as: Mapping[str, str] = MappingProxyType({})
) -> ProgramComparison:
    digests = (partial(_digest, before), partial(_digest, after))
    contents = before.contents, after.contents
    return ProgramComparison(*contents, digests, known_as, pairs_unlike=False)


def _other_names(definitions: Mapping[str, str]) -> dict[str, str]:
    """Return the names in the archive of functions that the package had to call otherwise."""
    own = ((place.rpartition(":")[2], name) for place, name in definitions.items())
    renamed = {f"{name.rpartition('.')[0]}.{shown}": name for shown, name in own}
    return {shown: name for shown, name in renamed.items() if shown != name}


def _digest(side: Readable, name: str) -> str:
    return tensor_digest(side.contents.tensors[name], side.reading)


def _scripted(request: Request, folder: Path, imports: Sequence[str]) -> Mapping[str, str]:
    """Let a process script a package; return what it could not, and why."""
    file = folder / "request.json"
    file.write_text(request.written(), encoding="utf-8")
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(file), json.dumps([*imports])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        hint = f"Import {request.package!r} yourself, and call its load()"
        raise ArchiveError(f"a process cannot script the package: {reason}", hint=hint)
    found: dict[str, str] = json.loads(Path(request.failures).read_text(encoding="utf-8"))
    return found


def _refused(archive: Readable, failures: Mapping[str, str]) -> Iterator[MethodCheck]:
    """Yield all methods of a model that torch.jit refuses."""
    for where, name, *_ in _comparison(archive, archive).routines():
        reason = failures.get(name) or failures[WHOLE]
        yield MethodCheck(name, where, "not scripted", reason=reason)


def _compared(
    before: Readable,
    after: Readable,
    failures: Mapping[str, str],
    known_as: Mapping[str, str],
    own: Collection[str],
) -> Iterator[MethodCheck]:
    comparison = _comparison(before, after, known_as)
    routines = _Routines(comparison, before, after)
    for pair in routines.pairs:
        if pair.name in failures:
            found = MethodCheck(pair.name, pair.where, "not scripted", reason=failures[pair.name])
        else:
            found = routines.check(pair)
        yield found if _is_another_module(pair) else _of_library(found, own)
    for name, definition, scripted in comparison.values():
        told = _values_of(definition), _values_of(scripted)
        if told[0] != told[1]:
            yield MethodCheck(name, name, "differs", *told)


class _Routines:
    """The routines of an archive beside those of its package, scripted again."""

    def __init__(self, comparison: ProgramComparison, before: Readable, after: Readable) -> None:
        self.pairs = [*comparison.routines()]
        outlines = [side.contents.outline for side in (before, after)]
        own = [pair.before.body for pair in self.pairs]
        bodies = chain.from_iterable(map(bodies_of, outlines))
        self._assigned = {*names_set(bodies), *names_set(own)}
        self._renamed = _renamed({*names_read(own)}, {*names_read(bodies_of(outlines[1]))})
        self._of_torch = [*map(routines_of_torch, outlines)]
        self._scripted = {pair.name: pair.after for pair in self.pairs if pair.after is not None}

    def check(self, pair: RoutinePair) -> MethodCheck:
        # The package has functions that are alike once.
        scripted = pair.after or self._scripted.get(pair.name)
        changes = None if scripted is None else self._changes(pair, scripted)
        if changes is None or (changes and pair.after is None):
            reason = "nothing that is scripted leads to it"
            return MethodCheck(pair.name, pair.where, "not scripted", reason=reason)
        if not changes:
            return MethodCheck(pair.name, pair.where, "equal")
        shown = _first_lines(changes[0].before, changes[0].after)
        return MethodCheck(pair.name, pair.where, "differs", *shown)

    def _changes(self, pair: RoutinePair, scripted: Routine) -> Sequence[Change]:
        own, other = pair.before, _called_alike(pair.before, scripted)
        return routine_changes(
            pair.where,
            settled(own, self._assigned, self._of_torch[0], self._renamed),
            settled(other, self._assigned, self._of_torch[1]),
        )


def _values_of(definition: Definition) -> str:
    """Return the fields of a named tuple, or the members of an enum, in their order."""
    slots = {**definition.attributes, **definition.constants}
    return ", ".join(f"{name}: {slot}" for name, slot in slots.items())


def _renamed(before: Set[str], after: Set[str]) -> dict[str, str]:
    """Return the attributes of the archive that the package has to call otherwise."""
    found = {name: identifier(name, private=False) for name in before - after}
    counts = Counter(found.values())
    return {
        name: other
        for name, other in found.items()
        if other in after - before and counts[other] == 1
    }


def _called_alike(own: Routine, other: Routine) -> Routine:
    """Return the other routine with the names of the arguments of the own one, where it has one.

    Classes of libraries call them otherwise than code that was traced.
    """
    before: Sequence[Any] = own.arguments
    after: Sequence[Any] = other.arguments
    named = [[one[0], *two[1:]] for one, two in zip(before, after, strict=False)]
    return other._replace(arguments=[*named, *after[len(named) :]])


def _first_lines(before: Plain, after: Plain) -> tuple[str | None, str | None]:
    """Return the first lines in which two texts differ, or values as they are written."""
    if before is None or after is None:
        return _first_line(before), _first_line(after)
    own, others = str(before).splitlines(), str(after).splitlines()
    rows = zip_longest(own, others)
    first = next((row for row in rows if row[0] != row[1]), ("", ""))
    return _first_line(first[0]), _first_line(first[1])


def _first_line(text: Plain) -> str | None:
    return None if text is None else str(text).partition("\n")[0].strip()
