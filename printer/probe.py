"""Reads what Python cannot see of a live module: slots of script objects, and what is shared.

torch's bindings copy lists, dicts and script objects on the way to Python, so identity is lost.
A small graph that follows a path of attributes and items, and runs inside torch, keeps it.
``bindings`` is ``torch._C``; this file works on what it is given and imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tsarchive.errors import SaveError

# Which earlier value each value is the same object as; its own position when there is none.
FIRST_SAME = """
def first_same(values: List[Any]) -> List[int]:
    found : List[int] = []
    for i in range(len(values)):
        first = i
        for j in range(i):
            if first == i and values[j] is values[i]:
                first = j
        found.append(first)
    return found
"""


@dataclass(frozen=True, slots=True)
class Attr:
    """A step to an attribute of a module or script object."""

    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """A step to an item of a list, or to a value of a dict."""

    key: Any


Step = Attr | Item


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is held: a ``torch._C.ScriptModule`` and the steps from there."""

    module: Any
    steps: tuple[Step, ...]

    def then(self, step: Step) -> Place:
        return Place(self.module, (*self.steps, step))


class Probe:
    """``slot_names`` gives the attribute names of a class type of torch in slot order."""

    def __init__(
        self, bindings: Any, slot_names: Callable[[Any], Sequence[str]], first_same: Any
    ) -> None:
        self._bindings = bindings
        self._slot_names = slot_names
        self._first_same = first_same

    def read(self, place: Place) -> Any:
        """The value at ``place`` as torch's bindings give it."""
        graph, values = self._follow([place])
        return self._run(graph, values[0], [place])

    def state(self, place: Place, state_type: Any) -> Any:
        """What ``__getstate__`` of the script object at ``place`` returns."""
        graph, values = self._follow([place])
        call = self._append(graph, "prim::CallMethod", values, state_type)
        call.s_("name", "__getstate__")
        return self._run(graph, call.output(), [place])

    def same(self, places: Sequence[Place]) -> list[int]:
        """For each place the first one that holds the very same object."""
        graph, values = self._follow(places)
        any_list = self._bindings.ListType(self._bindings.AnyType.get())
        collected = self._append(graph, "prim::ListConstruct", values, any_list)
        (result,) = graph.insertGraph(self._first_same.graph, [collected.output()])
        return list(self._run(graph, result, places))

    def _follow(self, places: Sequence[Place]) -> tuple[Any, list[Any]]:
        graph = self._bindings.Graph()
        inputs: dict[Any, Any] = {}
        for place in places:
            if place.module not in inputs:
                value = inputs[place.module] = graph.addInput()
                value.setType(place.module._type())
        return graph, [self._at(graph, inputs[place.module], place.steps) for place in places]

    def _at(self, graph: Any, value: Any, steps: Sequence[Step]) -> Any:
        for step in steps:
            if isinstance(step, Attr):
                value = self._attribute(graph, value, step.name)
            else:
                element = value.type().containedTypes()[-1]
                operands = [value, graph.insertConstant(step.key)]
                value = self._append(graph, "aten::__getitem__", operands, element).output()
        return value

    def _attribute(self, graph: Any, value: Any, name: str) -> Any:
        type_ = value.type()
        slot = list(self._slot_names(type_)).index(name)
        node = self._append(graph, "prim::GetAttr", [value], type_.containedTypes()[slot])
        node.s_("name", name)
        return node.output()

    def _append(self, graph: Any, kind: str, inputs: list[Any], type_: Any) -> Any:
        node = graph.create(kind, inputs, 1)
        node.output().setType(type_)
        graph.insertNode(node)
        return node

    def _run(self, graph: Any, result: Any, places: Sequence[Place]) -> Any:
        graph.registerOutput(result)
        function = self._bindings._create_function_from_graph("probe", graph)
        try:
            return function(*dict.fromkeys(place.module for place in places))
        except RuntimeError as error:
            raise SaveError(
                "a value of the module cannot be read from Python",
                hint="Import the Python classes it uses, or load the file with tsarchive",
            ) from error
