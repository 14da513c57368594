"""All code records of an archive: assignment by qualified name, order, and the constant table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.names import TypeNames, checked_type_name
from tsarchive.ir.source_ranges import TaggedRange, TaggedText, range_records
from tsarchive.ir.types import NamedType

from .definitions import Definitions
from .literals import ConstantTable, Literals
from .versions import Versions


@dataclass(frozen=True, slots=True)
class CodeFile:
    """One code record: its ``name`` without the `code/` folder, and its text."""

    name: str
    body: TaggedText

    @property
    def text(self) -> str:
        return str(self.body)

    def ranges(self) -> list[TaggedRange]:
        """The source ranges of the text, as recorded on the graph's nodes."""
        return range_records(self.body.owners, lambda node: node.range)


class Program:
    """Prints classes and everything they depend on.

    Classes of objects come first, in the order in which they were pickled; then their dependencies,
    from a queue that grows during printing. Each file exists from its first type on.
    """

    def __init__(
        self,
        names: TypeNames,
        constants: ConstantTable,
        definitions: type[Definitions] = Definitions,
    ) -> None:
        self._names = names
        self._definitions = definitions
        self._literals = Literals(constants, self._reference, names.tag)
        self._versions = Versions()
        self._files: dict[str, Definitions] = {}
        self._queue: dict[NamedType, None] = {}
        self._printed: set[NamedType] = set()
        self._checked: set[str] = set()

    def print_classes(self, classes: Iterable[ClassType]) -> None:
        for class_ in classes:
            self._print(class_)
        for named in self._drain():
            self._print(named)

    def files(self) -> list[CodeFile]:
        """The records in creation order."""
        return [
            CodeFile(f"{name.replace('.', '/')}.py", file.body)
            for name, file in self._files.items()
        ]

    def close(self) -> None:
        """Release the text and the graphs of everything printed; nothing else may need them."""
        self._files.clear()
        for named in self._printed:
            for function in _functions_of(named):
                function.drop_graph()

    @property
    def version(self) -> int:
        """The archive version that the printed operators need."""
        return self._versions.written

    def _reference(self, named: NamedType) -> str:
        """Return the name of a type as code mentions it."""
        name = self._names.name(named)
        if name not in self._checked:
            self._checked.add(checked_type_name(name))
        return name

    def _drain(self) -> Iterator[NamedType]:
        position = 0
        while position < len(self._queue):
            waiting = list(self._queue)[position:]
            position += len(waiting)
            yield from waiting

    def _depend(self, named: NamedType) -> None:
        self._names.meet(named)
        self._queue.setdefault(named)

    def _print(self, named: NamedType) -> None:
        if named in self._printed:
            return
        self._printed.add(named)
        self._names.meet(named)
        folder = self._names.name(named).rpartition(".")[0]
        file = self._files.get(folder)
        if file is None:
            file = self._definitions(self._literals, self._reference, self._depend, self._versions)
            self._files[folder] = file
        file.define(named)


def _functions_of(named: NamedType) -> Iterable[Function]:
    if isinstance(named, FunctionType):
        return (named.function,)
    if isinstance(named, ClassType) and not named.is_native:
        return (*named.methods.values(), *named.hooks())
    return ()
