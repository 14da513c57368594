"""The code of a file that torch.jit.load has read, as text.

torch has no bindings for the members of an enum, nor for an interface that only a parameter has. Its
profiler gives the text that a node comes from, which is a whole record of the file's code.
``bindings`` is ``torch._C``; this file works on what it is given and imports no torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.type_parser import type_of_expression
from tsarchive.ir.types import Type

_FILE = re.compile(r'Serialized   File "code/(.*)\.py", line \d+\n')
_CLASS = r"^class {name}\({base}\):\n(?:  .*\n)*"


class CodeTexts:
    """The text of the files of code that nodes below types come from.

    ``profile`` makes a profiler, and ``called`` gives the graph of a function constant.
    """

    def __init__(
        self,
        bindings: Any,
        roots: Sequence[Any],
        profile: Callable[[], Any],
        called: Callable[[Any], Any],
    ) -> None:
        self._bindings = bindings
        self._profile = profile
        self._called = called
        self._files = self._read(roots)

    def definition(self, name: str, base: str) -> tuple[str, ast.ClassDef] | None:
        """Return the qualified name and the definition of a class of some ``base``.

        Where ``name`` has no module, the first class with that name is meant.
        """
        wanted, _, last = name.rpartition(".")
        pattern = re.compile(_CLASS.format(name=re.escape(last), base=base), re.MULTILINE)
        for file, text in self._files:
            module = file.replace("/", ".")
            if wanted in ("", module) and (found := pattern.search(text)):
                (definition,) = ast.parse(found[0]).body
                assert isinstance(definition, ast.ClassDef)
                return f"{module}.{last}", definition
        return None

    def _read(self, roots: Sequence[Any]) -> list[tuple[str, str]]:
        """Return the files by name, with their texts."""
        nodes: dict[str, Any] = {}
        for node in self._nodes(roots):
            shown = _FILE.search(node.sourceRange())
            if shown is not None:
                nodes.setdefault(shown[1], node)
        return [(file, self._text(node)) for file, node in nodes.items()]

    def _nodes(self, roots: Sequence[Any]) -> Iterator[Any]:
        """Yield the nodes of all methods and functions that types lead to."""
        types, known = [*roots], set()
        for type_ in types:  # grows during the loop
            types += type_.containedTypes()
            if type_.kind() != "ClassType" or type_.annotation_str in known:
                continue
            known.add(type_.annotation_str)
            holder = self._bindings._create_object_with_type(type_)
            for name in type_.method_names():
                for node in self._nodes_in(holder._get_method(name).graph):
                    yield node
                    types += (node.outputsAt(n).type() for n in range(node.outputsSize()))

    def _nodes_in(self, graph: Any) -> Iterator[Any]:
        graphs = [graph]
        called: list[Any] = []
        for graph in graphs:  # grows during the loop
            blocks = [graph]
            for block in blocks:  # grows during the loop
                for node in block.nodes():
                    yield node
                    blocks += node.blocks()
                    if node.kind() in _WITH_SUBGRAPH:
                        blocks.append(node.g("Subgraph"))
                    elif node.kind() == "prim::Constant" and _is_new(node.output(), called):
                        graphs.append(self._called(node.output()))

    def _text(self, node: Any) -> str:
        """Return the text that a node comes from: the profiler has it for a node that has run."""
        graph = self._bindings.Graph()
        number = graph.addInput()
        operation = graph.insertNode(graph.create("aten::neg", [number], 1))
        for value in (number, operation.output()):
            value.setType(self._bindings.IntType.get())
        operation.copyMetadata(node)
        graph.registerOutput(operation.output())
        function = self._bindings._create_function_from_graph("profiled", graph)
        profile = self._profile()
        profile.enable()
        try:
            function(1)
        finally:
            profile.disable()
        texts = (stats.source().text() for stats in profile._dump_stats())
        return next(texts, "")


def members_of(definition: ast.ClassDef) -> dict[str, Any]:
    """Return the members of an enum by name; strings are written as bytes of UTF-8."""
    found: dict[str, Any] = {}
    for line in definition.body:
        match line:
            case ast.Assign([ast.Name(name)], value):
                found[name] = ast.literal_eval(value)
    return {name: _decoded(value) for name, value in found.items()}


def methods_of(
    definition: ast.ClassDef, owner: Type, resolve: Callable[[str], Type]
) -> dict[str, FunctionSchema]:
    """Return the schemas of the methods of the interface ``owner``; ``resolve`` gives the types of names."""
    found: dict[str, FunctionSchema] = {}
    for method in definition.body:
        match method:
            case ast.FunctionDef(name, returns=ast.expr() as returned):
                arguments = tuple(
                    Argument(each.arg, _annotated(each.annotation, owner, resolve))
                    for each in method.args.args
                )
                result = Argument("", type_of_expression(returned, resolve))
                found[name] = FunctionSchema(name, "", arguments, (result,))
    return found


def _annotated(text: ast.expr | None, owner: Type, resolve: Callable[[str], Type]) -> Type:
    return owner if text is None else type_of_expression(text, resolve)


def _decoded(value: Any) -> Any:
    return value.encode("latin-1").decode() if isinstance(value, str) else value


_WITH_SUBGRAPH = frozenset({"prim::fork", "prim::awaitable"})


def _is_new(value: Any, known: list[Any]) -> bool:
    """Return whether a value is a function whose type is not yet ``known``, and note it."""
    if value.type().kind() != "FunctionType" or value.type() in known:
        return False
    known.append(value.type())
    return True
