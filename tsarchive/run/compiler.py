"""Compiles the functions of an archive, and shares the code of classes of one structure.

Classes that differ in mangled names alone run one compiled body a method. Generated code names a
class of modules, and the methods of one, by globals. Each such class is that of ``self``, or of a
submodule within reach of it, so a structurally equal class finds its own along the same
attributes; all other globals are the same objects.

Tracers read the functions that generated code names. Such a function must be there, and stay the
same, before they reach it, so nothing may be compiled when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import ClassType, Function, FunctionType, SharedMethod, is_module
from tsarchive.ir.types import COMPOSITE, Type

from .conversion import type_of_class
from .linkage import Bound, Call, DynamicCall, LazyFunction, Linkage, Source
from .operators import called_by_tracers, without_modes

if TYPE_CHECKING:
    from tsarchive.ir.graph import Block, Node, Placed, Value

    from .enforcement import Dispatch
    from .passes.liveness import Wanted

# Nodes that take a module as first input, and do not show its class otherwise.
_OF_MODULES: Final = frozenset(
    {"prim::CallMethod", "prim::GetAttr", "prim::ModuleContainerIndex", "prim::SetAttr"}
)
_LITERALS: Final = (bool, int, float, complex, str, type(None))


class _Body:
    """The code of one method for those of structurally equal classes."""

    def __init__(self, function: Function, method: SharedMethod, source: Source) -> None:
        self._function = function
        self._method = method
        self._source = source

    def source_of(self, method: SharedMethod, linkage: Linkage) -> Source | None:
        """Return the code with the globals of another class; None where it cannot be shared."""
        classes = self._classes_of(method.owner)
        if classes is None or self._named is None:
            return None
        namespace = dict(self._source.namespace)
        for name, (type_, call) in self._named.items():
            own = classes[type_]
            if call is None:
                namespace[name] = linkage.table.python_class(own)
            else:
                function = own.function(call.function.name)
                namespace[name] = linkage.function(function, call.bound, call.wanted)
        body_name = self._function.qualified_name
        places = MovedPlaces(self._source.places, self._method, method, body_name)
        return self._source._replace(namespace=namespace, places=places)

    def _classes_of(self, owner: ClassType) -> Mapping[ClassType, ClassType] | None:
        """Return the other class's classes by those of this body; None where two stand for one."""
        if self._steps is None:
            return None
        walked: list[ClassType] = []
        found: dict[ClassType, ClassType] = {}
        for step in self._steps:
            own = owner
            if step.before is not None:
                type_ = walked[step.before].attributes[step.name].type
                assert isinstance(type_, ClassType)
                own = type_
            walked.append(own)
            if found.setdefault(step.type, own) is not own:
                return None
        return found

    @cached_property
    def _steps(self) -> Sequence[_Step] | None:
        """The steps by which code reaches each module whose class it names.

        None where it does more with a module than access its members, and where it has constants
        that calls could change: each function has its own.
        """
        graph = self._function.graph
        walk = _Walk(graph.params[0])
        return walk.steps if walk.is_plain(graph) else None

    @cached_property
    def _named(self) -> Mapping[str, tuple[ClassType, Call | None]] | None:
        """The globals that belong to a class of modules, or are one; None where it is unknown."""
        known = {step.type for step in self._steps or ()}
        found: dict[str, tuple[ClassType, Call | None]] = {}
        for name, value in self._source.namespace.items():
            named = _named(value)
            if named is not None:
                if named[0] not in known:
                    return None
                found[name] = named
        return found


def _named(value: Any) -> tuple[ClassType, Call | None] | None:
    """The class of modules that a global is or belongs to, and the call that it is made for."""
    if isinstance(value, LazyFunction):
        method = value.call.function.sharing
        return None if method is None else (method.owner, value.call)
    type_ = type_of_class(value) if isinstance(value, type) else None
    return (type_, None) if is_module(type_) else None


class _Step(NamedTuple):
    """A module that code reaches: ``self``, or the attribute ``name`` of an earlier one."""

    type: ClassType
    before: int | None
    name: str


class _Walk:
    """Follows the modules that code reaches from ``self``."""

    def __init__(self, self_: Value) -> None:
        self.steps: list[_Step] = []
        self._reached: dict[Value, int] = {}
        self._reach(self_, None, "")

    def is_plain(self, block: Block) -> bool:
        """Return whether a block, and those in it, only name members of their modules."""
        from tsarchive.ir.graph import nested_blocks  # code that is stored needs no graphs

        given = (value for value in block.params if value not in self._reached)
        if any(_holds_module(value.type) for value in given):
            return False
        return all(
            self._is_plain_node(node) and all(map(self.is_plain, nested_blocks(node)))
            for node in (*block.nodes, block.return_node)
        )

    def _is_plain_node(self, node: Node) -> bool:
        if node.is_constant:
            type_ = node.output.type
            return isinstance(type_, FunctionType) or _is_unchangeable(node.attributes["value"])
        first = node.kind in _OF_MODULES
        if any(value in self._reached for value in node.inputs[first:]):
            return False
        modules = [value for value in node.outputs if _holds_module(value.type)]
        if modules and (node.kind != "prim::GetAttr" or node.input not in self._reached):
            return False
        return all(self._reach(value, self._reached[node.input], node.name) for value in modules)

    def _reach(self, value: Value, before: int | None, name: str) -> bool:
        if not isinstance(value.type, ClassType):
            return False
        self._reached[value] = len(self.steps)
        self.steps.append(_Step(value.type, before, name))
        return True


def _is_unchangeable(value: Any) -> bool:
    from tsarchive.ir.constants import Device, EnumMember, TableConstant

    if isinstance(value, tuple):
        return all(map(_is_unchangeable, value))
    return isinstance(value, (*_LITERALS, TableConstant, Device, EnumMember))


def _holds_module(type_: Type) -> bool:
    if isinstance(type_, COMPOSITE):
        return any(map(_holds_module, type_.parts()))
    return is_module(type_)


class MovedPlaces(Sequence["Placed | None"]):
    """The places of a body's lines in an equal method, each found when it is asked for."""

    def __init__(
        self,
        places: Sequence[Placed | None],
        body: SharedMethod,
        method: SharedMethod,
        body_name: str,
    ) -> None:
        self.places = places
        self.body = body
        self.method = method
        self.body_name = body_name

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        place = self.places[index]
        return None if place is None else self.method.moved(place, self.body)


class Stored(Protocol):
    """The functions of an archive that were compiled before."""

    def link(self, linkage: Linkage) -> None:
        """Serve the code that refers to ``linkage``."""

    def take(self, call: Call) -> Source | None:
        """Return the code of a function; None where it must be compiled."""

    def add(self, call: Call, source: Source, allowed: Iterable[str]) -> None:
        """Remember a function that was compiled, after the policy has allowed what it names."""


class Compiler:
    """The Python functions for the functions of an archive, for one way to call operators."""

    def __init__(
        self,
        linkage: Linkage,
        lock: AbstractContextManager[Any],
        stored: Stored | None = None,
    ) -> None:
        self.lock = lock
        self.linkage = linkage
        self._stored = stored
        if stored is not None:
            stored.link(linkage)
        linkage.function = self.function
        self._bodies: dict[Hashable, _Body] = {}
        self._functions: dict[Hashable, LazyFunction] = {}
        self._calling: dict[Dispatch, Compiler] = {}

    def function(
        self, function: Function, bound: Bound = (), wanted: Wanted = None
    ) -> LazyFunction:
        """The Python function that runs ``function``: arguments by position, no conversions.

        ``bound`` names parameters that are constant tensors at the calls in question, ``wanted``
        the part of the result that those calls use.
        """
        call = Call(function, bound, wanted)
        key = function, call.key
        with self.lock:
            if key not in self._functions:
                self._functions[key] = LazyFunction(call, self._source, self.lock)
            return self._functions[key]

    def _source(self, call: Call) -> Source:
        """Return the code for calls of a function, with the globals that it needs."""
        if self._stored is None:
            return self._compiled(call)
        source = self._stored.take(call)
        if source is None:
            with self.linkage.enforcement.asking() as allowed:
                source = self._compiled(call)
            self._stored.add(call, source, allowed)
        return source

    def _compiled(self, call: Call) -> Source:
        """Compile a function; those of one structure share one body."""
        from .codegen import generate  # code that is stored needs none

        method = call.function.sharing
        body = None if method is None else self._bodies.get(call.key)
        if method is not None and body is not None:
            shared = body.source_of(method, self.linkage)
            if shared is not None:
                return shared
        # Constants are read now, and stay: they must not become the tensors of a tracer.
        with without_modes():
            source = generate(call.function, self.linkage, call.bound, call.wanted)
        # Code that cannot be generated is not shared: each class fails with its own place.
        if method is not None:
            self._bodies.setdefault(call.key, _Body(call.function, method, source))
        return source

    def calling(self, dispatch: Dispatch) -> Compiler:
        """The same compiler, for functions that call operators in another way."""
        with self.lock:
            if dispatch not in self._calling:
                self._calling[dispatch] = Compiler(self.linkage.calling(dispatch), self.lock)
            return self._calling[dispatch]


class TracedFunction:
    """The Python function that tracers see instead of a function of the archive."""

    def __init__(self, function: Function, compiler: Compiler) -> None:
        self._function = function
        self._compiler = compiler
        self.function: Callable[..., Any]

    @called_by_tracers
    def is_ready(self) -> bool:
        """Compile ``function`` and what it calls; true when that is done."""
        if not hasattr(self, "function"):
            self.function = self._compiled(self._compiler.linkage.enforcement.traced)
        return True

    @cached_property
    def exported(self) -> Callable[..., Any]:
        """The function that calls operators through the layers of an export."""
        return self._compiled(self._compiler.linkage.enforcement.exported)

    def _compiled(self, dispatch: Dispatch) -> Callable[..., Any]:
        """Compile ``function`` and what it calls."""
        lazy = self._compiler.calling(dispatch).function(self._function)
        from tsarchive.ir.graph import closure

        closure([lazy], _callees)
        return lazy.compile()


def _callees(function: LazyFunction) -> list[LazyFunction]:
    """Compile a function and return those that it calls; an error is left for its call."""
    try:
        named = function.compile().__globals__.values()
    except ArchiveError:
        return []
    callees = [value for value in named if isinstance(value, LazyFunction)]
    for value in named:
        if isinstance(value, DynamicCall):
            callees += value.candidates()
    return callees
