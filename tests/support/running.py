"""Runs TorchScript functions both ways: by torch.jit, and adopted and compiled by the runner."""

from __future__ import annotations

import copy
import io
import math  # noqa: F401  # TorchScript code that is given as text may name it
import zipfile
from collections.abc import Callable
from typing import Any

import torch

import tsarchive
from tests.support.archives import torch_saved
from tests.support.comparing import equal
from tsarchive.adopt.torch_jit import Adopter, adopt_function, adopt_module
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Value
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import Type
from tsarchive.policy import Guard, Policy
from tsarchive.run import checks
from tsarchive.run.calls_from_python import public_function
from tsarchive.run.classes import Classes
from tsarchive.run.linkage import source_of
from tsarchive.run.operators import operator_schemas

SEED = 3


def hide_operators(monkeypatch: Any, *names: str) -> None:
    """Let this process have no operators of these names."""
    for name in names:
        monkeypatch.setitem(checks._registered, name, ((), None))


def trusting() -> Classes:
    """What the code of this process runs by: it may reach all that torch has."""
    return Classes(guard=Guard(Policy.trusted()))


def ours(scripted: Any) -> Callable[..., Any]:
    """A scripted or traced function, run without torch.jit."""
    classes = trusting()
    function = adopt_function(scripted)
    return public_function(function, classes.compiler)


def our_module(scripted: Any) -> Any:
    """A scripted module, run without torch.jit for as long as it is used."""
    return trusting().objects.value(adopt_module(scripted, Adopter()))


def saved_and_loaded(scripted: Any) -> Any:
    """A scripted function or module, saved by torch.jit and loaded by tsarchive."""
    data = io.BytesIO()
    torch.jit.save(scripted, data)
    data.seek(0)
    return tsarchive.load(data, policy=Policy.trusted())


def scripted(text: str, name: str = "f") -> Any:
    """The function ``name`` of TorchScript source text."""
    return getattr(torch.jit.CompilationUnit(text), name)


def source(function: Function) -> str:
    return source_of(trusting().compiler.function(function).compile())


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    torch.manual_seed(SEED)
    try:
        return "result", function(*copy.deepcopy(arguments))
    except Exception as error:
        return "error", error


def check_same(theirs: Callable[..., Any], ours: Callable[..., Any], *arguments: Any) -> None:
    """Both give equal results, or both raise."""
    expected, found = outcome(theirs, *arguments), outcome(ours, *arguments)
    assert found[0] == expected[0], (arguments, expected[1], found[1])
    if found[0] == "result":
        assert equal(expected[1], found[1]), (arguments, expected[1], found[1])


def is_same(one: tuple[str, Any], two: tuple[str, Any]) -> bool:
    """Whether two outcomes are equal results, or both errors."""
    return one[0] == two[0] and (one[0] == "error" or equal(one[1], two[1]))


def check_same_as_either(
    theirs: Callable[..., Any], plain: Callable[..., Any], ours: Callable[..., Any], *arguments: Any
) -> None:
    """``ours`` gives what torch gives with its optimiser or, with ``plain``, without.

    The optimiser removes code that may raise, and now and then fails on code that is right.
    """
    expected, found = outcome(theirs, *arguments), outcome(ours, *arguments)
    with torch.jit.optimized_execution(False):
        unoptimised = outcome(plain, *arguments)
    same = is_same(expected, found) or is_same(unoptimised, found)
    assert same, (arguments, expected[1], unoptimised[1], found[1])


class _Template(torch.nn.Module):
    """Gives the data of hand-written archives: a buffer, a parameter, a list and a number."""

    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.ones(2))
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.items = [1, 2]
        self.number = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.buffer + self.weight + self.items[0] + self.number


def hand_written(methods: str, module: Any = None) -> bytes:
    """An archive of a module with these methods; torch.jit.script would tidy their code first.

    ``module`` is a scripted module that gives the data.
    """
    saved = io.BytesIO()
    torch.jit.save(module or torch.jit.script(_Template()), saved)
    written = io.BytesIO()
    with zipfile.ZipFile(saved) as template, zipfile.ZipFile(written, "w") as archive:
        for name in template.namelist():
            content = template.read(name)
            if name.endswith(".py"):
                header = content.decode().partition("  def forward")[0]
                content = (header + methods).encode()
            if not name.endswith(".debug_pkl"):
                archive.writestr(name, content)
    return written.getvalue()


def method(body: str, header: str = "forward(self, x: Tensor) -> Tensor") -> str:
    """A method of a class in an archive; ``body`` is its code without indentation."""
    return f"  def {header}:\n" + "".join(f"    {line}\n" for line in body.splitlines())


class Graph:
    """A graph made by hand, for what no source gives."""

    def __init__(self, name: str = "__torch__.made.by_hand") -> None:
        self.name = name
        self.block = Block()

    def param(self, type_: Type, name: str | None = None) -> Value:
        return self.block.add_param(type_, name)

    def function(self, result: Value) -> Function:
        self.block.add_return(result)
        arguments = tuple(
            Argument(param.name or f"argument_{position}", param.type)
            for position, param in enumerate(self.block.params)
        )
        name = self.name.rpartition(".")[2]
        schema = FunctionSchema(name, "", arguments, (Argument("", result.type),))
        return Function(self.name, schema, lambda: self.block)


def constant(block: Block, value: Any, type_: Type) -> Value:
    return block.append("prim::Constant", value=value).add_output(type_)


def operator(block: Block, full_name: str, *inputs: Value, name: str | None = None) -> Value:
    """A node of the overload ``full_name`` that has one result."""
    kind = full_name.partition(".")[0]
    (schema,) = (s for s in operator_schemas(kind) if s.full_name == full_name)
    node = block.append(kind, inputs, schema=schema)
    return node.add_output(schema.return_type, name)


def function_saved(body: str, header: str = "f(x: Tensor)") -> bytes:
    """An archive of the TorchScript function with that body."""
    text = f"def {header}:\n" + "".join(f"  {line}\n" for line in body.splitlines())
    return torch_saved(torch.jit.CompilationUnit(text).f)
