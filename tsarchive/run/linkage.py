"""All that generated code refers to, and its functions, compiled when they are first called.

Behind these stands what generated code calls beside operators. torch.jit knows the class of
``with torch.autocast(...)`` by its name, whose own ``__enter__`` and ``__exit__`` do nothing, and
inserts the casts in a pass. Here the dispatcher makes them, as it does in eager code.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tsarchive.errors import ScriptError
from tsarchive.garbage import is_patient, rarely_collecting
from tsarchive.ir.classes import ClassType, Function

from .conversion import native_name, type_of_class
from .modules import call_module, foreign_method, is_foreign_module, is_plain, refuse_receiver
from .natives.conversions import to_dtype
from .packed import call_method
from .slots import get_slot
from .tracebacks import FUNCTION, GENERATED, LAYERS, PLACES

if TYPE_CHECKING:
    from tsarchive.ir.graph import Placed
    from tsarchive.ir.types import Type

    from .enforcement import Dispatch, Enforcement
    from .objects import ClassTable, Objects
    from .passes.layers import Layers
    from .passes.liveness import Effects, Wanted
    from .passes.object_identity import Comparisons
    from .passes.peephole import Identities

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
        self.call: Call = call
        self._source_of = source_of
        self._lock = lock
        self._compiled: Callable[..., Any] | None = None
        self._places: list[tuple[dict[str, Any], str]] = []

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            if is_patient():  # the first of the functions being compiled has made it so
                return self.compile()(*arguments)
            with rarely_collecting():
                return self.compile()(*arguments)
        return self._compiled(*arguments)

    def compile(self) -> Callable[..., Any]:
        """The Python function; the same one each time."""
        with self._lock:
            if self._compiled is None:
                source = self._source_of(self.call)
                self._compiled = _define(source, self.call.function.qualified_name)
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


def _define(source: Source, qualified_name: str) -> Callable[..., Any]:
    """Run the generated definition; tracebacks and ``inspect`` find its source."""
    filename = _register_source(source.lines, qualified_name)
    # With a module name, torch.compile would look for that module instead of this namespace.
    namespace = {**source.namespace, PLACES: source.places, FUNCTION: qualified_name}
    layers = {line: source.namespace[name] for line, name in source.namespace.get(LAYERS, ())}
    if layers:
        namespace[LAYERS] = layers
    for name, value in source.namespace.items():
        if isinstance(value, LazyFunction):
            value.put(namespace, name)
    exec(_renamed(source.code, filename), namespace)
    compiled: Callable[..., Any] = namespace[source.name]
    compiled.__module__ = qualified_name.rpartition(".")[0]
    weakref.finalize(compiled, linecache.cache.pop, filename, None)
    GENERATED[filename] = compiled
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
    """Facts about the functions of an archive, found when they are first asked for.

    What is not asked for is not imported: code that was compiled before needs few of them.
    """

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self._lock = lock
        self.compared: dict[Function, bool] = {}
        """Whether functions compare such objects as ``comparisons`` is about, where that is known
        from before."""

    @cached_property
    def effects(self) -> Effects:
        from .passes.liveness import Effects

        return Effects()

    @cached_property
    def identities(self) -> Identities:
        from .passes.peephole import Identities

        return Identities()

    @cached_property
    def layers(self) -> Layers:
        from .passes.layers import Layers

        return Layers()

    @cached_property
    def comparisons(self) -> Comparisons:
        from .passes.object_identity import Comparisons

        return Comparisons(self._lock, self.compared)

    def compares(self, function: Function) -> bool:
        """Return whether a function compares objects that Python does not tell apart."""
        found = self.compared.get(function)
        return self.comparisons.of(function) if found is None else found


class Linkage:
    """All that generated code can refer to; its compiler gives the functions that it calls."""

    function: Callable[..., LazyFunction]

    def __init__(
        self,
        table: ClassTable,
        objects: Objects,
        enforcement: Enforcement,
        analyses: Analyses,
        dispatch: Dispatch,
    ) -> None:
        self.table = table
        self.objects = objects
        self.enforcement = enforcement
        self.analyses = analyses
        self.dispatch = dispatch

    def calling(self, dispatch: Dispatch) -> Linkage:
        """Return the same for functions that call operators in another way."""
        return Linkage(self.table, self.objects, self.enforcement, self.analyses, dispatch)


_AUTOCAST = frozenset(
    f"__torch__.torch.{part}amp.autocast_mode.autocast" for part in ("", "cpu.", "cuda.")
)
_DEVICE, _DTYPE, _ENABLED = "device", "fast_dtype", "_enabled"


def is_autocast(type_: Type) -> bool:
    """Return whether objects of this type switch casts on and off; copies of the class do not."""
    return (
        isinstance(type_, ClassType)
        and type_.qualified_name in _AUTOCAST
        and {_DEVICE, _DTYPE, _ENABLED} <= type_.attributes.keys()
    )


def autocast(manager: Any) -> torch.autocast:
    """The context that ``manager``, an object of such a class, stands for."""
    type_ = type_of_class(type(manager))
    assert isinstance(type_, ClassType)
    device, dtype, enabled = (
        get_slot(manager, type_.attributes[name]) for name in (_DEVICE, _DTYPE, _ENABLED)
    )
    # Without CUDA there is nothing that casts for it could change; torch would warn each time.
    is_usable = device != "cuda" or torch.cuda.is_available()
    return torch.autocast(device, dtype=to_dtype(dtype), enabled=enabled and is_usable)


def unpack_list(values: list[Any], count: int) -> list[Any]:
    """``values``, which must have ``count`` items."""
    if len(values) != count:
        raise ScriptError(f"Expected {count} elements in a list but found {len(values)}")
    return values


class NativeCall:
    """Calls a method of an object of a class bound from C++."""

    def __init__(self, type_: ClassType, name: str) -> None:
        self.type = type_
        self.name = name

    def __call__(self, receiver: Any, *arguments: Any) -> Any:
        if native_name(receiver) != self.type.qualified_name:
            raise refuse_receiver(receiver, self.type)
        if not isinstance(receiver, torch.ScriptObject):  # torch.export traces
            return getattr(receiver, self.name)(*arguments)
        return call_method(self.type.qualified_name, self.name, receiver, arguments)


class DynamicCall:
    """Calls a method of an interface: the class of the object decides which function runs."""

    def __init__(self, name: str, linkage: Linkage) -> None:
        self.name = name
        self.linkage = linkage
        self._known: dict[type, Callable[..., Any]] = {}

    def __call__(self, receiver: Any, *arguments: Any) -> Any:
        class_ = receiver.__class__
        function = self._known.get(class_)
        if function is None:
            function = self._known[class_] = self._find(class_)
        is_module = issubclass(class_, torch.nn.Module)
        if is_module and self.name == "forward" and not is_plain(receiver, class_):
            function = call_module
        return function(receiver, *arguments)

    def candidates(self) -> list[LazyFunction]:
        """The methods of this name of all classes that there are; calls find them from now on."""
        found = {
            class_: self.linkage.function(type_.methods[self.name])
            for class_, type_ in self.linkage.table.module_classes()
            if self.name in type_.methods
        }
        self._known.update(found)
        return list(found.values())

    def _find(self, class_: type) -> Callable[..., Any]:
        type_ = type_of_class(class_)
        if isinstance(type_, ClassType) and self.name in type_.methods:
            return self.linkage.function(type_.methods[self.name])
        # A module that Python code put in the place of one of the archive.
        if self.name == "forward" and is_foreign_module(class_):
            return call_module
        return foreign_method(class_, self.name)
