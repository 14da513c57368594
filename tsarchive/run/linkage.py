"""All that generated code refers to, and its functions, compiled when they are first called."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

from tsarchive.garbage import rarely_collecting
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Placed

from .enforcement import Dispatch, Enforcement
from .objects import ClassTable, Objects
from .passes.liveness import Effects, Wanted
from .passes.object_identity import Comparisons
from .passes.peephole import Identities
from .tracebacks import FUNCTION, PLACES

Bound = tuple[tuple[int, Any], ...]
"""Constants without dimensions that a caller passes: position of the parameter, tensor."""

_numbers = itertools.count(1)


class Source(NamedTuple):
    """Generated source that defines ``name``: its lines and code, and the globals that it needs.

    ``places`` holds the place of each line in the archive.
    """

    name: str
    lines: list[str]
    code: CodeType
    namespace: dict[str, Any]
    places: Sequence[Placed | None]


class Call(NamedTuple):
    """The calls of a function that run the same code."""

    function: Function
    bound: Bound
    wanted: Wanted

    @property
    def key(self) -> Hashable:
        """Equal for calls that may share code, of functions of the same structure."""
        bound = tuple((position, id(tensor)) for position, tensor in self.bound)
        return self.function.original, bound, self.wanted


class LazyFunction:
    """Stands for a function of the archive until it is first called.

    It is then compiled, and takes the place of this object in the namespaces of its callers.
    """

    __slots__ = ("_compiled", "_lock", "_places", "_source_of", "call")

    def __init__(
        self, call: Call, source_of: Callable[[Call], Source], lock: AbstractContextManager[Any]
    ) -> None:
        self.call = call
        self._source_of = source_of
        self._lock = lock
        self._compiled: Callable[..., Any] | None = None
        self._places: list[tuple[dict[str, Any], str]] = []

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            with rarely_collecting():
                return self.compile()(*arguments)
        return self._compiled(*arguments)

    def compile(self) -> Callable[..., Any]:
        """The Python function; the same one each time."""
        with self._lock:
            if self._compiled is None:
                source = self._source_of(self.call)
                self._compiled = _define(source, self.qualified_name)
                for namespace, name in self._places:
                    namespace[name] = self._compiled
                self._places.clear()
            return self._compiled

    def put(self, namespace: dict[str, Any], name: str) -> None:
        """Let ``name`` mean this function in a namespace of generated source."""
        with self._lock:
            if self._compiled is None:
                self._places.append((namespace, name))
            else:
                namespace[name] = self._compiled

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function whose source ``inspect`` shows."""
        return self.compile()

    @property
    def qualified_name(self) -> str:
        return self.call.function.qualified_name


def _define(source: Source, qualified_name: str) -> Callable[..., Any]:
    """Run the generated definition; tracebacks and ``inspect`` find its source."""
    filename = _register_source(source.lines, qualified_name)
    # With a module name, torch.compile would look for that module instead of this namespace.
    namespace = {**source.namespace, PLACES: source.places, FUNCTION: qualified_name}
    for name, value in source.namespace.items():
        if isinstance(value, LazyFunction):
            value.put(namespace, name)
    exec(_renamed(source.code, filename), namespace)
    compiled: Callable[..., Any] = namespace[source.name]
    compiled.__module__ = qualified_name.rpartition(".")[0]
    weakref.finalize(compiled, linecache.cache.pop, filename, None)
    return compiled


def _renamed(code: CodeType, filename: str) -> CodeType:
    """The code, and that of functions inside it, with another file name."""
    constants = [
        _renamed(constant, filename) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    ]
    return code.replace(co_filename=filename, co_consts=tuple(constants))


def _register_source(lines: list[str], qualified_name: str) -> str:
    """A unique file name for generated source, under which tracebacks show it."""
    shown = ascii(qualified_name)[1:-1]
    filename = f"<tsarchive {shown}>"
    entry = (sum(map(len, lines)), None, lines, filename)
    # Two threads may ask for the name at once.
    while linecache.cache.setdefault(filename, entry) is not entry:
        filename = f"<tsarchive {shown} #{next(_numbers)}>"
        entry = (*entry[:3], filename)
    return filename


def source_of(compiled: Callable[..., Any]) -> str:
    """All generated source behind a compiled function, parts outside its ``def`` included."""
    code: Any = compiled.__code__
    return "".join(linecache.getlines(code.co_filename))


class Analyses:
    """Facts about the functions of an archive, found when they are first asked for."""

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self.effects = Effects()
        self.identities = Identities()
        self.comparisons = Comparisons(lock)


@dataclass(frozen=True, slots=True)
class Linkage:
    """All that generated code can refer to. ``function`` gives the functions that it calls."""

    table: ClassTable
    objects: Objects
    enforcement: Enforcement
    analyses: Analyses
    dispatch: Dispatch
    function: Callable[..., LazyFunction]
