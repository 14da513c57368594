"""The method ``forward`` of a program: unpacking and checking arguments, its graph, its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tsarchive.errors import ArchiveError, FormatError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import Block, Value
from tsarchive.ir.names import to_identifier
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import TENSOR

from .arguments import Values, define, lookup
from .building import Body
from .dead_code import drop_unused_reads
from .guards import Checks
from .module_classes import Module
from .program import Translation
from .schema import ExportedProgram
from .signature import Signature
from .typed_trees import TypedTree, build, unpack


def argument_names(signature: Signature) -> list[str]:
    """Return names for the arguments in code: unique identifiers."""
    found: list[str] = []
    for parameter in signature.parameters:
        name = to_identifier(parameter.name)
        while name in found or name == "self":
            name += "_"
        found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Forward:
    """The parts of ``forward``; its graph is built on first use."""

    program: ExportedProgram
    signature: Signature
    parameters: tuple[TypedTree, ...]
    result: TypedTree
    module: Module
    operators: Callable[[str], Sequence[FunctionSchema]]
    record: str

    def function(self) -> Function:
        owner = self.module.type
        return Function(f"{owner.qualified_name}.forward", self._schema(owner), self._graph)

    def _schema(self, owner: ClassType) -> FunctionSchema:
        names = argument_names(self.signature)
        arguments = [
            Argument(name, typed.type) for name, typed in zip(names, self.parameters, strict=True)
        ]
        return FunctionSchema(
            "forward", "", (Argument("self", owner), *arguments), (Argument("", self.result.type),)
        )

    def _graph(self) -> Block:
        try:
            return self._made()
        except ArchiveError as error:
            error.record = error.record or self.record
            raise

    def _made(self) -> Block:
        block = Block()
        translation = Translation(self.operators, self.record)
        body = translation.body(block)
        owner = block.add_param(self.module.type, "self")
        leaves = list(self._leaves(body))
        checks = Checks(body, self.program, self.signature.inputs, leaves, self.record)
        checks.append(self.signature.parameters)
        values: Values = {}
        for input_, leaf in zip(self.signature.inputs, leaves, strict=True):
            if input_.name is not None:
                define(values, input_.name, leaf)
        self._bind_state(body, owner, values)
        translation.nodes(self.program.graph_module.graph, block, values)
        body.place = None
        self._write_back(body, values)
        block.add_return(build(body, self.result, self._results(translation, block, values)))
        drop_unused_reads(block)
        return block

    def _leaves(self, body: Body) -> Iterator[Value]:
        given = [
            body.block.add_param(typed.type, name)
            for name, typed in zip(argument_names(self.signature), self.parameters, strict=True)
        ]
        for value, typed in zip(given, self.parameters, strict=True):
            yield from unpack(body, value, typed)

    def _bind_state(self, body: Body, owner: Value, values: Values) -> None:
        """Bind inputs of the graph to the state of the module."""
        self._bind_module(body, owner, self.module, values)
        for name in self.signature.tokens:
            define(values, name, body.none())

    def _bind_module(self, body: Body, owner: Value, module: Module, values: Values) -> None:
        for name, state in module.states.items():
            type_ = module.type.attributes[name].type
            value = body.append("prim::GetAttr", [owner], type_, name=name).output
            define(values, state.name, value)
        for name, child in module.children.items():
            inner = body.append("prim::GetAttr", [owner], child.type, name=name).output
            self._bind_module(body, inner, child, values)

    def _write_back(self, body: Body, values: Values) -> None:
        """Copy new values of buffers and arguments into them."""
        for mutation in self.signature.mutations:
            target = lookup(values, mutation.target)
            value = lookup(values, mutation.name)
            if target.type != TENSOR:
                raise FormatError(f"{mutation.target!r} is changed, and no tensor")
            values[mutation.name] = body.value("aten::copy_", target, value)

    def _results(self, translation: Translation, block: Block, values: Values) -> Iterator[Value]:
        for argument, type_ in zip(
            self.signature.results, self.signature.result_types, strict=True
        ):
            yield translation.argument(block, argument, values, type_)
