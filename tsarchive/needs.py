"""What a file needs of the process that loads it: operators, and classes bound from C++.

Code is read as torch.jit reads it: from the classes of the objects on, all their methods, and
what those name. Branches that a literal decides are never compiled, so they need nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tsarchive.torchscript.code_records import encoded
from tsarchive.torchscript.frontend.importer import NATIVE_PREFIX
from tsarchive.torchscript.pickled import names_in
from tsarchive.torchscript.program_text import ProgramText, dotted

# The namespaces of operators and of classes that torch registers when it is imported.
TORCH_OPERATORS: Final = frozenset(
    {
        "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_quantized",
        "_test", "aten", "c10d", "debug_mode_ops", "debugprims", "export", "inductor",
        "inductor_prims", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "onnx", "prim", "prims",
        "profiler", "quantization", "quantized", "rngprims", "sparse", "static_runtime",
        "symm_mem",
    }
)  # fmt: skip
TORCH_CLASSES: Final = frozenset({"c10d", "mkldnn", "quantized", "rnn", "sparse"})


@dataclass(frozen=True, slots=True)
class Needs:
    """``operators`` are qualified names without overload (``aten::conv2d``), with the number of
    places that call each; ``classes`` are torchbind classes (``quantized.Conv2dPackedParamsBase``).

    TorchScript's own functions, such as ``int`` and ``annotate``, are no operators.
    """

    operators: Mapping[str, int]
    classes: tuple[str, ...]

    @property
    def foreign(self) -> tuple[str, ...]:
        """Operators and classes of namespaces that are not those of torch, by name."""
        operators = (n for n in self.operators if n.partition("::")[0] not in TORCH_OPERATORS)
        classes = (n for n in self.classes if n.partition(".")[0] not in TORCH_CLASSES)
        return (*sorted(operators), *classes)


def needs_of(code: Mapping[str, str], data: Iterable[Any]) -> Needs:
    """What code needs that is reached from the classes in ``data``, which are pickle values.

    Raises SourceError for code that does not parse.
    """
    reader = _Reader(_program(code))
    for value in data:
        for name in names_in(value):
            reader.mention(name)
    return reader.needs()


def needs_of_all(code: Mapping[str, str], renamed: Mapping[str, str]) -> Needs:
    """What all of the code needs, where no names lead from one record to another.

    ``renamed`` gives the names of today of operators that have changed theirs.
    Raises SourceError for code that does not parse.
    """
    program = _program(code)
    reader = _Reader(program, renamed)
    for record in program.records.values():
        reader.pending += record.tree
    return reader.needs()


def _program(code: Mapping[str, str]) -> ProgramText:
    return ProgramText({name: encoded(text) for name, text in code.items()})


class _Reader:
    """Collects what definitions mention, and goes on with the definitions among that."""

    def __init__(self, program: ProgramText, renamed: Mapping[str, str] | None = None) -> None:
        self.program = program
        self.renamed = renamed or {}
        self.operators: Counter[str] = Counter()
        self.native: set[str] = set()
        self.pending: list[ast.stmt] = []
        self._mentioned: set[str] = set()

    def mention(self, name: str) -> None:
        """A dotted name, of which the start may be that of a definition."""
        if name in self._mentioned:
            return
        self._mentioned.add(name)
        if name.startswith(NATIVE_PREFIX):
            if name.count(".") == NATIVE_PREFIX.count(".") + 1:
                self.native.add(name)
            return
        found = self.program.definition(name)
        if found is not None:
            self.pending.append(found)

    def needs(self) -> Needs:
        """What has been collected when all that is pending has been read."""
        while self.pending:
            for node in live_nodes(self.pending.pop()):
                self._node(node)
        classes = sorted(name.removeprefix(NATIVE_PREFIX) for name in self.native)
        return Needs(dict(self.operators), tuple(classes))

    def _node(self, node: ast.AST) -> None:
        match node:
            case ast.Call(func):
                operators = _operator(dotted(func))
                self.operators.update(self.renamed.get(name, name) for name in operators)
            # The parts of a longer name are nodes of their own.
            case ast.Attribute() | ast.BinOp():
                name = dotted(node)
                if name.startswith("__torch__."):
                    self.mention(name)


def _operator(name: str) -> Iterator[str]:
    """The operator that a call of a dotted name means."""
    match name.split("."):
        case ["torch", name] | ["torch", "autograd", name]:
            yield f"aten::{name}"
        case ["ops", namespace, name]:
            yield f"{namespace}::{name}"


def live_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of branches that a literal rules out."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        known = _known(node.test) if isinstance(node, ast.If | ast.IfExp) else None
        if known is None:
            pending += ast.iter_child_nodes(node)
        elif isinstance(node, ast.If):
            pending += [node.test, *(node.body if known else node.orelse)]
        elif isinstance(node, ast.IfExp):
            pending += [node.test, node.body if known else node.orelse]


def _known(condition: ast.expr) -> bool | None:
    """What a literal, or ``not`` before one, decides."""
    negations = 0
    while isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        condition, negations = condition.operand, negations + 1
    match condition:
        case ast.Constant(bool() as value):
            return value != bool(negations % 2)
    return None
