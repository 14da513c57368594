"""What nodes of an exported program call: operators by what they can do, and everything else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tsarchive.findings import Finding, Nature, Severity
from tsarchive.operators.risks import Risk, row_of
from tsarchive.scanning.report import OperatorUse, Place

# What torch and ExecuTorch put before the name of an operator, "#" for a registered extension,
# and the form of AOTInductor.
_OPERATOR: Final = re.compile(
    r"(?:torch\.ops|executorch\.exir\.dialects\.(?:edge|backend)\._ops)\.(\w+)\.(\w+)(?:\.\w+)?"
    r"|#(\w+):(\w+)(?:\.\w+)?|(\w+)::(\w+)(?:\.\w+)?",
    re.ASCII,
)
# Functions of Python for numbers: those that torch's verifier of programs takes.
_NUMBERS: Final = frozenset(
    {
        *(f"_operator.{name}" for name in (
            "getitem", "add", "mul", "sub", "truediv", "ge", "le", "gt", "lt", "eq", "ne",
            "floordiv", "mod", "and_", "or_", "not_", "pow", "neg", "pos", "abs", "lshift",
            "rshift",
        )),
        *(f"math.{name}" for name in ("ceil", "floor", "trunc")),
        *(f"torch.sym_{name}" for name in (
            "int", "float", "ite", "max", "min", "not", "sqrt", "sum",
        )),
        "torch._sym_sqrt", "builtins.round", "round",
    }
)  # fmt: skip
_TAKING_GRAPHS: Final = "higher_order"
# Those that run graphs, of the program, and nothing else; operators that they are given are
# listed as well.
_PLAIN: Final = frozenset(
    {
        "associative_scan", "auto_functionalized", "auto_functionalized_v2", "cond", "flat_apply",
        "hints_wrapper", "invoke_subgraph", "map", "map_impl", "out_dtype", "run_const_graph",
        "scan", "strict_mode", "tag_activation_checkpoint", "while_loop", "with_effects", "wrap",
        "wrap_activation_checkpoint", "wrap_with_autocast", "wrap_with_set_grad_enabled",
    }
)  # fmt: skip
_NATIVE: Final = frozenset(
    {
        "aoti_call_delegate", "executorch_call_delegate", "inline_asm_elementwise",
        "triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation",
    }
)  # fmt: skip
_OF_OBJECTS: Final = frozenset({"call_torchbind"})
_MOST_PLACES: Final = 1000
_SHOWN: Final = 120


class Calls:
    """Takes targets, each with its place, and tells what they are."""

    def __init__(self) -> None:
        self._places: dict[str, list[Place]] = {}
        self._strange: dict[str, Place] = {}

    def add(self, target: str, place: Place) -> None:
        match = _OPERATOR.fullmatch(target)
        if match is not None:
            namespace, name = (part for part in match.groups() if part is not None)
            places = self._places.setdefault(f"{namespace}::{name}", [])
            if len(places) < _MOST_PLACES:
                places.append(place)
        elif target not in _NUMBERS:
            self._strange.setdefault(target, place)

    def uses(self) -> Iterator[OperatorUse]:
        """The operators of libraries, and those of graphs."""
        for name, places in self._places.items():
            risk, reason = _risk(name)
            yield OperatorUse(name, risk, reason, tuple(places))

    def findings(self) -> Iterable[Finding]:
        """One for each target that is no operator."""
        for target, place in self._strange.items():
            yield Finding(
                "program-target",
                Severity.ERROR,
                Nature.HOSTILE,
                f"{place.function} calls {target[:_SHOWN]!r}, which is no operator",
                place.record,
                hint="torch.export.load looks such names up in Python's modules",
            )


def _risk(operator: str) -> tuple[Risk, str]:
    namespace, _, name = operator.partition("::")
    if namespace != _TAKING_GRAPHS:
        row = row_of(operator)
        return row.risk, row.reason
    if name in _PLAIN:
        return Risk.COMPUTE, "runs graphs of the program"
    if name in _NATIVE:
        return Risk.NATIVE_CODE, "runs a program that the file, or this process, brings"
    if name in _OF_OBJECTS:
        return Risk.FOREIGN, "calls a method of an object that is bound from C++"
    return Risk.UNKNOWN, "takes graphs, and is not known here"
