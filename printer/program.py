"""All code records of an archive: assignment by qualified name, order, and the constant table."""

from __future__ import annotations

from collections.abc import Iterable

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.names import TypeNames, checked_type_name
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import NamedType

from .definitions import Definitions
from .literals import ConstantTable, Literals
from .versions import Versions


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
        self._queue: list[NamedType] = []
        self._queued: set[NamedType] = set()
        self._printed: set[NamedType] = set()
        self._checked: set[str] = set()

    def print_classes(self, classes: Iterable[ClassType]) -> None:
        for class_ in classes:
            self._print(class_)
        for named in self._queue:  # grows during the loop
            self._print(named)

    def files(self) -> dict[str, TaggedText]:
        """Return the text of each record by its name, in creation order."""
        return {
            f"code/{name.replace('.', '/')}.py": file.body for name, file in self._files.items()
        }

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

    def _depend(self, named: NamedType) -> None:
        self._names.meet(named)
        if named not in self._queued:
            self._queued.add(named)
            self._queue.append(named)

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
