"""From generated source to Python functions, each when it is first called."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import _disable_current_modes

from tsarchive.printer.graph import Function

from .codegen import GeneratedSource, generate
from .tracebacks import FUNCTION, PLACES

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
        # Constants are read now, and stay: they must not become the tensors of a tracer.
        with self._classes.lock, _disable_current_modes():
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
    def __wrapped__(self) -> Callable[..., Any]:
        """What ``inspect`` shows the source of."""
        return self.compile()

    @property
    def qualified_name(self) -> str:
        return self._function.qualified_name


def _compile(generated: GeneratedSource, function: Function) -> Callable[..., Any]:
    """Run the generated definition; tracebacks and ``inspect`` find its source."""
    filename = _register_source(generated.text, function.qualified_name)
    # Without a module name, torch.compile takes the namespace for what it is.
    namespace = {
        **generated.namespace,
        PLACES: generated.places,
        FUNCTION: function.qualified_name,
    }
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
    entry = (len(text), None, text.splitlines(keepends=True), filename)
    # Two threads may ask for the name at once.
    while linecache.cache.setdefault(filename, entry) is not entry:
        filename = f"<tsarchive {shown} #{next(_numbers)}>"
        entry = (*entry[:3], filename)
    return filename


def source_of(compiled: Callable[..., Any]) -> str:
    """All generated source behind a compiled function, parts outside its ``def`` included."""
    code: Any = compiled.__code__
    return "".join(linecache.getlines(code.co_filename))
