"""From generated source to Python functions, each when it is first called."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tsarchive.printer.graph import Function

from .codegen import GeneratedSource, generate

if TYPE_CHECKING:
    from .classes import Classes
    from .expressions import Bound
    from .passes import Wanted

__all__ = ["LazyFunction", "source_of"]

_numbers = itertools.count(1)


class LazyFunction:
    """Stands for a function of the archive until it is first called.

    It is then compiled, and takes the place of this object in the namespaces of its callers.
    """

    __slots__ = ("_bound", "_classes", "_compiled", "_function", "_places", "_wanted")

    def __init__(self, function: Function, classes: Classes, bound: Bound, wanted: Wanted) -> None:
        self._function = function
        self._wanted = wanted
        self._classes = classes
        self._bound = bound
        self._compiled: Callable[..., Any] | None = None
        self._places: list[tuple[dict[str, Any], str]] = []

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Callable[..., Any]:
        """The Python function; the same one each time."""
        with self._classes.lock:
            if self._compiled is None:
                generated = generate(self._function, self._classes, self._bound, self._wanted)
                self._compiled = _compile(generated, self._function)
                for namespace, name in self._places:
                    namespace[name] = self._compiled
                self._places.clear()
            return self._compiled

    def put(self, namespace: dict[str, Any], name: str) -> None:
        """Let ``name`` mean this function in a namespace of generated source."""
        with self._classes.lock:
            if self._compiled is None:
                self._places.append((namespace, name))
            else:
                namespace[name] = self._compiled

    @property
    def qualified_name(self) -> str:
        return self._function.qualified_name


def _compile(generated: GeneratedSource, function: Function) -> Callable[..., Any]:
    """Run the generated definition; tracebacks and ``inspect`` find its source."""
    filename = _register_source(generated.text, function.qualified_name)
    # Without a module name, torch.compile takes the namespace for what it is.
    namespace = dict(generated.namespace)
    for name, value in generated.namespace.items():
        if isinstance(value, LazyFunction):
            value.put(namespace, name)
    exec(compile(generated.text, filename, "exec", dont_inherit=True), namespace)
    compiled: Callable[..., Any] = namespace[generated.name]
    compiled.__module__ = function.qualified_name.rpartition(".")[0]
    weakref.finalize(compiled, linecache.cache.pop, filename, None)
    return compiled


def _register_source(text: str, qualified_name: str) -> str:
    """A file name for generated source that is in use once, and shows it in tracebacks."""
    shown = ascii(qualified_name)[1:-1]
    filename = f"<tsarchive {shown}>"
    while filename in linecache.cache:
        filename = f"<tsarchive {shown} #{next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return filename


def source_of(compiled: Callable[..., Any]) -> str:
    """All generated source behind a compiled function, parts outside its ``def`` included."""
    code: Any = compiled.__code__
    return "".join(linecache.getlines(code.co_filename))
