"""What torch makes of one operator call: the oracle that the tests of natives compare with.

``by_operator`` calls the overload through torch.ops. ``by_script`` compiles a function that calls
the operator by name with typed arguments, which reaches the overloads with type variables and
shows what an operator does to a list given to it. Strings cross the border of a script as lists of
byte values, because Python refuses strings that are not UTF-8.
"""

import functools
import math
import re
import struct
from dataclasses import dataclass
from typing import Any

import torch

from tests.support.fresh_registry import NAMES_OF_TORCH
from tsarchive.errors import ScriptError
from tsarchive.run.natives import NATIVES

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
INTS = (0, 1, -1, 2, -7, 63, 2**31, 2**53 + 1, INT_MAX, INT_MIN)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.25, 1e-300, 1e300, -1e20, 3e9, 2.0**63, -(2.0**63)),
    *(math.inf, -math.inf, math.nan),
)

STRING_HELPERS = """
def text_of(data: List[int]) -> str:
    return "".join([chr(byte) for byte in data])

def texts_of(data: List[List[int]]) -> List[str]:
    return [text_of(item) for item in data]

def bytes_of(text: str) -> List[int]:
    return [ord(byte) for byte in list(text)]

def all_bytes_of(texts: List[str]) -> List[List[int]]:
    return [bytes_of(text) for text in texts]
"""


@dataclass(frozen=True)
class Failed:
    """An operator that raised, with the message."""

    message: str


@functools.cache
def schemas():
    """Every schema of torch's registry by native key."""
    return {
        f"{s.name}.{s.overload_name}" if s.overload_name else s.name: s
        for s in torch._C._jit_get_all_schemas()
    }


# Operators of ExecuTorch's programs, which torch does not register: its runtime is their oracle.
OF_EXECUTORCH = re.compile(r"(executorch(_prim)?|et_copy|dim_order_ops|quantized_decomposed)::.*")


def argument_types(key):
    return [str(argument.type) for argument in schemas()[key].arguments]


def natives_of_torch():
    """Natives by key that have this torch as their oracle."""
    return {
        key: native
        for key, native in NATIVES.items()
        if key in NAMES_OF_TORCH and not OF_EXECUTORCH.match(key)
    }


def by_operator(key, *arguments, **options):
    namespace, name, overload = (*key.replace("::", ".").split("."), "default")[:3]
    packet = getattr(getattr(torch.ops, namespace), name)
    try:
        return getattr(packet, overload)(*arguments, **options)
    except (RuntimeError, IndexError, ValueError) as error:
        return Failed(str(error))


def by_native(key, *arguments, **options):
    try:
        return NATIVES[key](*arguments, **options)
    except ScriptError as error:
        return Failed(error.message)
    except RuntimeError as error:
        return Failed(str(error))


def type_of(value: Any) -> str:
    """The TorchScript type of a value; containers go by their first item."""
    if isinstance(value, list):
        return f"List[{type_of(value[0])}]"
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(type_of, value)) or '()'}]"
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        return f"Dict[{type_of(key)}, {type_of(item)}]"
    names = {torch.Tensor: "Tensor", torch.device: "Device"}
    return names.get(type(value), type(value).__name__)


_TO_TEXT = {"str": "text_of", "List[str]": "texts_of"}
_TO_BYTES = {"str": "bytes_of({})", "List[str]": "all_bytes_of({})"}
_ON_BORDER = {"str": "List[int]", "List[str]": "List[List[int]]"}


@functools.cache
def _compiled(key, types, literals, options, result_type):
    name = key.replace("::", ".").split(".")
    parameters = ", ".join(
        f"a{i}: {_ON_BORDER.get(t, t)}" for i, t in enumerate(types) if literals[i] is None
    )
    arguments = [
        literal or f"{_TO_TEXT.get(types[i], '')}(a{i})" for i, literal in enumerate(literals)
    ]
    prepared = [f"    v{i} = {argument}" for i, argument in enumerate(arguments)]
    values = [literal or f"v{i}" for i, literal in enumerate(literals)]
    call = f"torch.ops.{name[0]}.{name[1]}({', '.join([*values, *options])})"
    changed = [f"v{i}" for i, t in enumerate(types) if t.startswith(("List", "Dict"))]
    shown = [_TO_BYTES.get(types[int(v[1:])], "{}").format(v) for v in changed]
    if result_type == "None":
        body, results = [f"    {call}"], ["None", *shown]
    elif result_type == "Tuple[str, str, str]":
        body = [f"    r = {call}"]
        results = [f"({', '.join(f'bytes_of(r[{i}])' for i in range(3))})", *shown]
    else:
        body = [f"    r = {call}"]
        results = [_TO_BYTES.get(result_type, "{}").format("r"), *shown]
    text = "\n".join(
        [f"def run({parameters}):", *prepared, *body, f"    return ({', '.join(results)},)", ""]
    )
    unit = torch.jit.CompilationUnit(STRING_HELPERS + text)
    chosen = str(unit.run.graph.findNode(f"{name[0]}::{name[1]}").schema())
    assert chosen == str(schemas()[key]), f"{key}: torch chose {chosen}"
    return unit.run


def to_border(value: Any) -> Any:
    """``value`` with its strings as lists of bytes."""
    if isinstance(value, str):
        return list(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_border, value))
    if isinstance(value, dict):
        return [to_border(item) for item in value.items()]
    return value


def by_script(key, *arguments, types=(), options=(), result=""):
    """The result of the operator and its list and dict arguments after the call.

    ``types`` overrides the types of the first arguments, ``options`` are keyword arguments as
    source text, ``result`` is the type of the result where strings that are not UTF-8 may occur
    in it. None stands in the source.
    """
    given = [*types, *map(type_of, arguments[len(types) :])]
    literals = tuple("None" if t == "NoneType" else None for t in given)
    result = result or ("None" if not schemas()[key].returns else "")
    function = _compiled(key, tuple(given), literals, tuple(options), result)
    passed = [
        to_border(value) if given[i] in _ON_BORDER else copied(value)
        for i, value in enumerate(arguments)
        if literals[i] is None
    ]
    with torch.jit.optimized_execution(False):
        try:
            return function(*passed)
        except (torch.jit.Error, RuntimeError) as error:
            return Failed(str(error))


def same(ours: Any, theirs: Any) -> bool:
    """Equal in type and value; floats to the bit, failures when torch's text holds ours."""
    if isinstance(theirs, Failed):
        # Python's side of torch renames the types in messages.
        message = theirs.message.replace("torch.LongTensor", "CPULongType")
        return isinstance(ours, Failed) and ours.message in message
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        if math.isnan(ours) and math.isnan(theirs):  # whose other bits are the library's
            return math.copysign(1, ours) == math.copysign(1, theirs)
        return struct.pack("d", ours) == struct.pack("d", theirs)
    if isinstance(ours, complex):
        return same(ours.real, theirs.real) and same(ours.imag, theirs.imag)
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return same(list(ours.items()), list(theirs.items()))
    if isinstance(ours, torch.Tensor):
        return same_tensors(ours, theirs)
    return ours == theirs


def same_tensors(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return False
    if not (ours.is_floating_point() or ours.is_complex()):
        return torch.equal(ours, theirs)
    return bool(torch.isclose(ours, theirs, rtol=0, atol=0, equal_nan=True).all())


def check_script(key, *arguments, **options):
    """Compare native and script on the same arguments, results and mutated arguments alike."""
    theirs = by_script(key, *arguments, **options)
    mine = [copied(argument) for argument in arguments]
    result = by_native(key, *mine)
    if isinstance(result, Failed) or isinstance(theirs, Failed):
        assert same(result, theirs), (key, arguments, result, theirs)
        return
    ours = (result, *(value for value in mine if isinstance(value, (list, dict))))
    assert same(to_border(ours), to_border(theirs)), (key, arguments, ours, theirs)


def copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict)) else value
