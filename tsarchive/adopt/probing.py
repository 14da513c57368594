"""Reading values where Python is not shown them: inside torch, along a path.

A small graph that follows a path of attributes and items runs in torch, and gives what is there.
``bindings`` is ``torch._C``; this file works on what it is given and imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tsarchive.errors import SaveError

# For each value of a group, the index of the first value that is the same object.
FIRST_SAME = """
def first_same(groups: List[List[Any]]) -> List[List[int]]:
    found : List[List[int]] = []
    for values in groups:
        firsts : List[int] = []
        distinct : List[int] = []
        for i in range(len(values)):
            value = values[i]
            first = i
            for j in distinct:
                if values[j] is value:
                    first = j
            if first == i:
                distinct.append(i)
            firsts.append(first)
        found.append(firsts)
    return found
"""


@dataclass(frozen=True, slots=True)
class Attr:
    """A step to an attribute of a module or script object."""

    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """A step to an item of a list or tuple."""

    index: int


@dataclass(frozen=True, slots=True)
class Values:
    """A step to the list of the values of a dict: some keys cannot be written in a graph."""


@dataclass(frozen=True, slots=True)
class State:
    """A step to the result of an object's ``__getstate__``, a value of torch's ``type``."""

    type: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class As:
    """A step to the same value as one of torch's ``type``, where the static type says less."""

    type: Any = field(compare=False)


Step = Attr | Item | Values | State | As


@dataclass(frozen=True, slots=True)
class Place:
    """The path to a value: a ``torch._C.ScriptModule`` and the steps from there."""

    module: Any
    steps: tuple[Step, ...]

    def then(self, step: Step) -> Place:
        return Place(self.module, (*self.steps, step))


def extend(place: Place | None, step: Step) -> Place | None:
    """Extend a path by a step, if there is a path."""
    return None if place is None else place.then(step)


class Holder:
    """The name of the module classes that hold an object while its class is asked for."""


_HELD = "held"


class Probe:
    """``slot_names`` gives the attribute names of a class type of torch in slot order.

    ``first_same`` is the compiled form of FIRST_SAME, ``interface`` any interface type of torch.
    """

    def __init__(
        self,
        bindings: Any,
        slot_names: Callable[[Any], Sequence[str]],
        first_same: Callable[[], Any],
        interface: Callable[[], Any],
    ) -> None:
        self._bindings = bindings
        self._slot_names = slot_names
        self._first_same = first_same
        self._interface = interface
        # By the address of the type, which is kept alive by being held here.
        self._slot_types: dict[int, tuple[Any, dict[str, Any]]] = {}

    def read(self, place: Place) -> Any:
        """Return the value at ``place`` as torch's bindings give it."""
        graph, values = self._follow([place])
        return self._run(graph, values[0], [place])

    def is_none(self, place: Place) -> bool:
        """Return whether there is None at ``place``."""
        graph, (value,) = self._follow([place])
        inputs = [value, graph.insertConstant(None)]
        result = self._append(graph, "aten::__is__", inputs, self._bindings.BoolType.get())
        return bool(self._run(graph, result, [place]))

    def length(self, place: Place) -> int:
        """Return the length of the list or dict at ``place``."""
        found: int = self._ask("aten::len", place, self._bindings.IntType.get())
        return found

    def keys(self, place: Place) -> list[Any]:
        """Return the keys of the dict at ``place`` in order."""
        graph, (value,) = self._follow([place])
        value = self._unwrapped(graph, value)
        keys = self._bindings.ListType(value.type().containedTypes()[0])
        return list(self._run(graph, self._append(graph, "aten::keys", [value], keys), [place]))

    def member_name(self, place: Place) -> str:
        """Return the name of the member of an enum at ``place``."""
        found: str = self._ask("prim::EnumName", place, self._bindings.StringType.get())
        return found

    def is_a(self, place: Place, type_: Any) -> bool:
        """Return whether the value at ``place`` is of a class type of torch."""
        graph, (value,) = self._follow([place])
        result = self._append(graph, "prim::isinstance", [value], self._bindings.BoolType.get())
        result.node().tys_("types", [type_])
        return bool(self._run(graph, result, [place]))

    def class_at(self, place: Place) -> Any:
        """Return the class type of the object at ``place``, where the static type is not it.

        torch gives it away when it freezes a module: it replaces an interface by what it finds.
        """
        concrete, holder = self._holder(self._interface())
        graph, (value,) = self._follow([place])
        self._hold(graph, self._unwrapped(graph, value), holder, [place])
        holder._define(concrete, f"def forward(self):\n  return self.{_HELD}\n", lambda _: None)
        frozen = self._bindings._freeze_module(holder, [], True, True)
        found = frozen._get_method("forward").graph.return_node().inputsAt(0).type()
        if found.kind() != "ClassType":
            raise _unreadable()
        return found

    def kept(self, constant: Any) -> Place:
        """Return a place that has the value of a ``prim::Constant`` node."""
        type_ = constant.output().type()
        graph = self._bindings.Graph()
        value = self._append(graph, "prim::Constant", [], type_)
        value.node().copyAttributes(constant)
        _, holder = self._holder(type_)
        self._hold(graph, value, holder, [])
        return Place(holder, (Attr(_HELD),))

    def _holder(self, type_: Any) -> tuple[Any, Any]:
        """Return a new module class with one attribute, and an empty module of it."""
        builder = self._bindings.ConcreteModuleTypeBuilder(Holder)
        builder.add_attribute(_HELD, type_, False, False)
        concrete = builder.build()
        return concrete, self._bindings._create_module_with_type(concrete.jit_type)

    def _hold(self, graph: Any, value: Any, holder: Any, places: Sequence[Place]) -> None:
        """Run a graph that begins at ``places``, and keep a value of it in a holder."""
        target = graph.addInput()
        target.setType(holder._type())
        node = graph.create("prim::SetAttr", [target, value], 0)
        node.s_("name", _HELD)
        graph.insertNode(node)
        self._run(graph, graph.insertConstant(None), [*places, Place(holder, ())])

    def _ask(self, kind: str, place: Place, type_: Any) -> Any:
        graph, (value,) = self._follow([place])
        result = self._append(graph, kind, [self._unwrapped(graph, value)], type_)
        return self._run(graph, result, [place])

    def same(self, groups: Sequence[Sequence[Place]]) -> list[list[int]]:
        """For each place of a group, return the index of the first that holds the very same object.

        All groups are examined in one run: compiling a function costs more than running it.
        """
        places = [place for group in groups for place in group]
        graph, values = self._follow(places)
        left = iter(values)
        lists = [self._list_of(graph, list(islice(left, len(group)))) for group in groups]
        collected = self._list_of(graph, lists, depth=2)
        (result,) = graph.insertGraph(self._first_same().graph, [collected])
        return [list(firsts) for firsts in self._run(graph, result, places)]

    def _list_of(self, graph: Any, values: list[Any], depth: int = 1) -> Any:
        type_ = self._bindings.AnyType.get()
        for _ in range(depth):
            type_ = self._bindings.ListType(type_)
        return self._append(graph, "prim::ListConstruct", values, type_)

    def _follow(self, places: Sequence[Place]) -> tuple[Any, list[Any]]:
        graph = self._bindings.Graph()
        known: dict[Place, Any] = {}
        for module in dict.fromkeys(place.module for place in places):
            value = known[Place(module, ())] = graph.addInput()
            value.setType(module._type())
        return graph, [self._at(graph, place, known) for place in places]

    def _at(self, graph: Any, place: Place, known: dict[Place, Any]) -> Any:
        """Emit the steps to a place, each once, so that a state made anew is one object."""
        if place not in known:
            *before, step = place.steps
            holder = self._at(graph, Place(place.module, tuple(before)), known)
            known[place] = self._step(graph, self._unwrapped(graph, holder), step)
        return known[place]

    def _step(self, graph: Any, value: Any, step: Step) -> Any:
        type_ = value.type()
        match step:
            case Attr(name):
                if id(type_) not in self._slot_types:
                    slots = zip(self._slot_names(type_), type_.containedTypes(), strict=True)
                    self._slot_types[id(type_)] = (type_, dict(slots))
                slot_type = self._slot_types[id(type_)][1][name]
                return self._append(graph, "prim::GetAttr", [value], slot_type, name)
            case Item(index):
                in_tuple = type_.kind() == "TupleType"
                element = type_.containedTypes()[index if in_tuple else 0]
                kind = "prim::TupleIndex" if in_tuple else "aten::__getitem__"
                return self._append(graph, kind, [value, graph.insertConstant(index)], element)
            case Values():
                values = self._bindings.ListType(type_.containedTypes()[-1])
                return self._append(graph, "aten::values", [value], values)
            case As(known):
                return self._append(graph, "prim::unchecked_cast", [value], known)
            case State(state):
                return self._append(graph, "prim::CallMethod", [value], state, "__getstate__")

    def _unwrapped(self, graph: Any, value: Any) -> Any:
        """Unwrap an optional value that is not None."""
        if value.type().kind() != "OptionalType":
            return value
        element = value.type().getElementType()
        return self._append(graph, "prim::unchecked_unwrap_optional", [value], element)

    def _append(
        self, graph: Any, kind: str, inputs: list[Any], type_: Any, name: str | None = None
    ) -> Any:
        """Append a node, with a ``name`` for its attribute; return its output."""
        node = graph.create(kind, inputs, 1)
        node.output().setType(type_)
        if name is not None:
            node.s_("name", name)
        return graph.insertNode(node).output()

    def _run(self, graph: Any, result: Any, places: Sequence[Place]) -> Any:
        graph.registerOutput(result)
        function = self._bindings._create_function_from_graph("probe", graph)
        try:
            with self._unoptimised():
                return function(*dict.fromkeys(place.module for place in places))
        except RuntimeError as error:
            raise _unreadable() from error

    @contextmanager
    def _unoptimised(self) -> Iterator[None]:
        """Disable optimization in this thread: optimizing a graph that runs once does not pay."""
        before = self._bindings._get_graph_executor_optimize()
        self._bindings._set_graph_executor_optimize(False)
        try:
            yield
        finally:
            self._bindings._set_graph_executor_optimize(before)


def _unreadable() -> SaveError:
    return SaveError(
        "a value of the module cannot be read from Python",
        hint="Import the Python classes it uses, or load the file with tsarchive",
    )
