"""Operators of torch's registry called from an archive: once by torch.jit, once by tsarchive.

Run as a script with the bounds of a slice of the registry, it prints name and outcome of every
operator. Some operators end their process when they are given what they do not expect, so the
calls are made in child processes.
"""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import torch

import tsarchive
from tests.support.children import Ended, Say, answers
from tests.support.comparing import equal
from tests.support.registry_values import Draw, NoValuesError
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.subtyping import has_variables, substitute
from tsarchive.ir.types import INT, STRING, TENSOR, Type, annotation
from tsarchive.run.operators import operator_schemas

ATTEMPTS, ENOUGH, SEED = 8, 2, 3
PATIENCE = 10  # seconds of the processor, which a busy machine does not shorten
AGREEMENTS = ("equal", "errors", "refused")
# The memory of these results is not written to.
UNWRITTEN = re.compile(r"empty|resize|prims::(empty|copy_strided)|new_|set_|::set\b|as_strided")
# Type variables stand for each of these in turn.
VARIABLES = {"int": INT, "Tensor": TENSOR, "str": STRING}
_RETURNED = re.compile(r"Tensor|List|Dict")
_HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"


def registry() -> list[FunctionSchema]:
    """Every registered overload, as the frontend knows it, but for those that ask for a GPU."""
    return [
        next(s for s in operator_schemas(found.name) if s.overload == found.overload_name)
        for found in torch._C._jit_get_all_schemas()
        if not found.name.startswith("cuda::")
    ]


def archive_of(code: str) -> bytes:
    """An archive whose root is an object of the class ``M`` without attributes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in (
            ("data.pkl", b"\x80\x02c__torch__\nM\n)\x81}(ub."),
            ("constants.pkl", b"\x80\x02)."),
            ("code/__torch__.py", code),
            ("version", "10\n"),
        ):
            archive.writestr(f"archive/{name}", content)
    return data.getvalue()


def call_of(schema: FunctionSchema, types: list[Type]) -> str:
    """A method that calls the operator, and returns its result and what it may have changed."""
    namespace, _, name = schema.name.partition("::")
    function = f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"
    numbered = list(enumerate(zip(schema.arguments, types, strict=True)))
    params = "".join(f", a{i}: {annotation(type_)}" for i, (_, type_) in numbered)
    given = [f"{a.name}=a{i}" if a.kwarg_only else f"a{i}" for i, (a, _) in numbered]
    changed = [f"a{i}" for i, (_, type_) in numbered if _RETURNED.search(annotation(type_))]
    return (
        f"{_HEADER}  def f(self: __torch__.M{params}):\n"
        f"    r = {function}({', '.join(given)})\n    return (r, {', '.join(changed)})\n"
    )


def bindings(schema: FunctionSchema) -> Iterator[list[Type]]:
    """The types of the arguments, once for each meaning of the type variables."""
    types = [argument.type for argument in schema.arguments]
    if not any(map(has_variables, types)):
        yield types
        return
    for meaning in VARIABLES.values():
        bound = dict.fromkeys(("t", "t1", "t2", "tVal"), meaning)
        yield [substitute(type_, bound) or type_ for type_ in types]


def outcome(function: Callable[..., Any], arguments: list[Any]) -> tuple[bool, Any]:
    torch.manual_seed(SEED)
    try:
        return True, function(*arguments)
    except Exception as error:
        return False, error


def same(one: Any, two: Any, *, values: bool) -> bool:
    """Equal to the bit, or in type and shape alone."""
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        if (one.device, one.dtype, one.layout) != (two.device, two.dtype, two.layout):
            return False
        if one.requires_grad != two.requires_grad or one.shape != two.shape:
            return False
        return not values or one.is_meta or equal(one.detach(), two.detach())
    if isinstance(one, list | tuple) and type(one) is type(two):
        return len(one) == len(two) and all(
            same(x, y, values=values) for x, y in zip(one, two, strict=True)
        )
    if isinstance(one, torch.ScriptObject | torch.Generator):
        return type(one) is type(two)
    return repr(one) == repr(two) if isinstance(one, float | complex) else equal(one, two)


def compare(schema: FunctionSchema, types: list[Type], say: Say) -> str:
    """How the two ways agree: ``equal``, ``errors`` alike, ``refused`` alike; or a difference.

    ``say`` is told whose turn it is.
    """
    data = archive_of(call_of(schema, types))
    say("torch")
    is_theirs, theirs = outcome(torch.jit.load, [io.BytesIO(data)])
    say("tsarchive")
    is_ours, ours = outcome(_compiled, [data])
    if not (is_theirs and is_ours):
        return "refused" if is_theirs == is_ours else f"loads differently: {theirs} and {ours}"
    count = 0
    for attempt in range(ATTEMPTS):
        given = [_drawn(schema, types, attempt) for _ in range(2)]
        say("torch")
        expected = outcome(theirs.f, given[0])
        say("tsarchive")
        found = outcome(ours.f, given[1])
        is_unwritten = UNWRITTEN.search(schema.full_name) is not None
        if expected[0] != found[0] or (
            expected[0] and not same(expected[1], found[1], values=not is_unwritten)
        ):
            return f"{_drawn(schema, types, attempt)}: {expected[1]!r} and {found[1]!r}"
        count += expected[0]
        if count == ENOUGH:
            break
    return "equal" if count else "errors"


def _compiled(data: bytes) -> Any:
    """The module of an archive, with its method compiled: that is put off until it is called."""
    module = tsarchive.load(io.BytesIO(data), policy=tsarchive.Policy.trusted())
    assert type(module).tsarchive_class.methods["f"].graph.returns
    return module


def _drawn(schema: FunctionSchema, types: list[Type], attempt: int) -> list[Any]:
    seed = f"{schema.full_name} {attempt}"
    draw = Draw(seed, types, schema.name.partition("::")[0])
    return [draw.argument(t, a.name) for t, a in zip(types, schema.arguments, strict=True)]


def outcome_of(schema: FunctionSchema, say: Say) -> str:
    """The worst outcome among the meanings of the type variables."""
    found = []
    for types in bindings(schema):
        try:
            found.append(compare(schema, types, say))
        except NoValuesError as missing:
            return f"no values of {missing}"
        except Exception as error:  # such as tensors that cannot even be shown
            return f"cannot be compared: {error!r}"
    differing = [text for text in found if text not in AGREEMENTS]
    return differing[0] if differing else min(found, key=AGREEMENTS.index)


def in_one_line(answer: str | Ended) -> str:
    text = f"{answer.last} ended the process" if isinstance(answer, Ended) else answer
    return text.replace("\n", " ")


def main(number: int, slices: int) -> None:
    """The outcomes of one slice of the registry."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    schemas = registry()[number::slices]
    found = answers(schemas, outcome_of, patience=PATIENCE)
    for schema, answer in zip(schemas, found, strict=True):
        print(json.dumps([schema.full_name, in_one_line(answer)]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
