"""Overloads whose meaning changed, and what stands for the old meaning.

A method of an archive older than ``bumped_at`` is compiled against ``old_schema``; running the
node means running the function that torch calls ``upgrader``. Every overload changed once.
Source: torch's operator version map (``torch._C._get_operator_version_map()``).

Behind them stand operators that code of torch 1.0 to 1.2 calls otherwise than code of today.
Source: the schemas that these releases registered, and what they do. In a method the version of the
archive says what an operator means. Functions and closures are read as code of today, so that
``TEXT`` has to spell the old meaning out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tsarchive.ir.schema import FunctionSchema, parse_schema
from tsarchive.ir.types import BOOL, FLOAT, Type


class Upgrader(NamedTuple):
    """``upgrader`` gives archives of versions before ``bumped_at`` their old operator."""

    bumped_at: int
    upgrader: str
    old_schema: str


class Candidate(NamedTuple):
    """An overload that a call may mean; ``upgrader`` is set for an old one.

    ``refusal`` tells why nothing can stand for one that torch removed.
    """

    schema: FunctionSchema
    upgrader: str | None = None
    refusal: str = ""


_OPTIONS: Final = (
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
)
_DIV = {
    "Tensor": "Tensor self, Tensor other",
    "Scalar": "Tensor self, Scalar other",
    "Tensor_mode": "Tensor self, Tensor other, *, str? rounding_mode",
    "Scalar_mode": "Tensor self, Scalar other, *, str? rounding_mode",
}
_DIV_OUT = {
    "out": "Tensor self, Tensor other, *, Tensor(a!) out",
    "out_mode": "Tensor self, Tensor other, *, str? rounding_mode, Tensor(a!) out",
}
_DIV_IN_PLACE = {
    overload: text.replace("Tensor self", "Tensor(a!) self") for overload, text in _DIV.items()
}
_FULL_NAMES = f"int[] size, Scalar fill_value, *, Dimname[]? names, {_OPTIONS}"
_LINSPACE = "Scalar start, Scalar end, int? steps=None"
_LOGSPACE = f"{_LINSPACE}, float base=10.0"


def _entry(bumped_at: int, name: str, overload: str, arguments: str) -> tuple[str, Upgrader]:
    full_name = f"aten::{name}.{overload}" if overload else f"aten::{name}"
    last_version = bumped_at - 1
    upgrader = "_".join(filter(None, (name, overload, "0", str(last_version))))
    return full_name, Upgrader(bumped_at, upgrader, f"{full_name}({arguments}) -> Tensor")


UPGRADERS: Final[dict[str, Upgrader]] = dict(
    (
        *(_entry(4, "div", *entry) for entry in (_DIV | _DIV_OUT).items()),
        *(_entry(4, "div_", *entry) for entry in _DIV_IN_PLACE.items()),
        _entry(5, "full", "", f"int[] size, Scalar fill_value, *, {_OPTIONS}"),
        _entry(5, "full", "names", _FULL_NAMES),  # gone with the operator since torch 2.12
        _entry(5, "full", "out", "int[] size, Scalar fill_value, *, Tensor(a!) out"),
        _entry(8, "linspace", "", f"{_LINSPACE}, *, {_OPTIONS}"),
        _entry(8, "linspace", "out", f"{_LINSPACE}, *, Tensor(a!) out"),
        _entry(9, "logspace", "", f"{_LOGSPACE}, *, {_OPTIONS}"),
        _entry(9, "logspace", "out", f"{_LOGSPACE}, *, Tensor(a!) out"),
        _entry(10, "gelu", "", "Tensor self"),
        _entry(10, "gelu", "out", "Tensor self, *, Tensor(a!) out"),
    )
)
OLDER: Final = "upgrader"
"""The namespace of old operators beside those of today: `upgrader::gelu_0_9`."""
OLDER_SCHEMAS: Final[Mapping[str, str]] = {
    f"{OLDER}::{entry.upgrader}": f"{OLDER}::{entry.upgrader}({arguments}"
    for entry in UPGRADERS.values()
    for arguments in [entry.old_schema.partition("(")[2]]
}
_BUMPED: Final = frozenset(name.partition(".")[0] for name in UPGRADERS)


class Age(NamedTuple):
    """What of archives of other releases a reader knows, of which each release knows some.

    Operators mean what they do in archives of version ``newest``, and ``revives`` tells whether
    those that torch removed are known.
    """

    newest: int
    revives: bool


ANY_AGE: Final = Age(max(entry.bumped_at for entry in UPGRADERS.values()), revives=True)


def candidates(
    schemas: Iterable[FunctionSchema], version: int | None, age: Age = ANY_AGE
) -> tuple[Candidate, ...]:
    """Return the overloads to try, in order, for code of an archive version; None means current.

    Old overloads stand behind those that did not change.
    """
    return of_version(map(Candidate, schemas), version, age)


def of_version(
    given: Iterable[Candidate], version: int | None, age: Age = ANY_AGE
) -> tuple[Candidate, ...]:
    """Return overloads of the newest version as they are in code of an archive version."""
    if version is None or version >= age.newest:
        return tuple(given)
    current: list[Candidate] = []
    old: list[Candidate] = []
    for candidate in given:
        is_bumped = candidate.schema.name in _BUMPED
        entry = UPGRADERS.get(candidate.schema.full_name) if is_bumped else None
        if entry is None or not _is_old(entry, version, age):
            current.append(candidate)
        else:
            old.append(Candidate(parse_schema(entry.old_schema), entry.upgrader))
    return (*current, *old)


def old_overloads(name: str, version: int | None, age: Age) -> tuple[str, ...]:
    """Return the overloads that have an old meaning in code of an archive version."""
    if version is None or name not in _BUMPED:
        return ()
    entries = (item for item in UPGRADERS.items() if item[0].partition(".")[0] == name)
    return tuple(full_name for full_name, entry in entries if _is_old(entry, version, age))


def _is_old(entry: Upgrader, version: int, age: Age) -> bool:
    return version < entry.bumped_at <= age.newest


_WITH_UNDERSCORE: Final = ("addmm", "addmm_", "argmax", "argmin", "cumprod", "cumsum")
# Other names, with the same arguments in the same order, beside those of ``removed.txt``. Most are
# inner steps of an operator that tracing recorded.
RENAMED: Final[Mapping[str, str]] = {
    f"aten::{old}": f"aten::{new}"
    for old, new in (
        *((f"_{name}", name) for name in _WITH_UNDERSCORE),
        ("native_clone", "clone"),
        ("native_pow", "pow"),
        ("native_zero_", "zero_"),
        ("s_copy_", "copy_"),
        ("s_native_addmm", "addmm"),
        ("s_native_addmm_", "addmm_"),
        ("thnn_conv_depthwise2d", "_conv_depthwise2d"),
        ("trtrs", "triangular_solve"),
    )
}

_FLOAT32: Final = 6
# These filled with floats unless told otherwise, whatever their arguments were.
DTYPES: Final[Mapping[str, int]] = dict.fromkeys(
    ("aten::arange", "aten::randint", "aten::randperm"), _FLOAT32
)

_FLOAT64, _UINT8 = 7, 0
# The dtype of tensors made of numbers, by the type of these, unless told otherwise.
ELEMENT_DTYPES: Final[Mapping[str, Mapping[Type, int]]] = {
    name: {FLOAT: _FLOAT64} for name in ("aten::as_tensor", "aten::tensor")
}
ELEMENT_DTYPES_OF_1_1: Final[Mapping[str, Mapping[Type, int]]] = {
    "aten::tensor": {FLOAT: _FLOAT64, BOOL: _UINT8}
}

# Where the mask stands. Before torch 1.2 comparisons gave tensors of uint8.
MASKS: Final[Mapping[str, int]] = {
    **{f"aten::masked_{kind}": 1 for kind in ("fill", "fill_", "scatter", "scatter_", "select")},
    "aten::where": 0,
}

# The arguments before ``align_corners``, which was not to be chosen before torch 1.3.
FLAGS: Final[Mapping[str, int]] = {
    "aten::affine_grid_generator": 2,
    "aten::grid_sampler": 4,
    "aten::grid_sampler_2d": 4,
    "aten::grid_sampler_3d": 4,
}


RECORD: Final = "libs/__torch__/before_torch_1_4.py"
_QUALIFIER: Final = "__torch__.before_torch_1_4"

_DIVISION = """\
def {name}(self: Tensor,
    other: {type}) -> Tensor:
  if torch.is_floating_point(self):
    _0 = True
  else:
    _0 = {other_is_float}
  if _0:
    _1 = torch.true_divide{suffix}(self, other)
  else:
    _1 = torch.divide{suffix}(self, other, rounding_mode="trunc")
  return _1
"""
_TENSOR = {"type": "Tensor", "other_is_float": "torch.is_floating_point(other)"}
_NUMBER = {"type": "number", "other_is_float": "isinstance(other, float)"}
_FILLED = {
    "options": "dtype: Optional[int], layout: Optional[int], device: Optional[Device], "
    "pin_memory: Optional[bool]",
    "given": "dtype=dtype, layout=layout, device=device, pin_memory=pin_memory",
}
_POINTS = """\
def {name}(start: number, end: number, steps: Optional[int], {more}{options}) -> Tensor:
  if torch.__is__(steps, None):
    _0 = 100
  else:
    _0 = unchecked_cast(int, steps)
  return torch.{name}(start, end, _0, {base}{given})
"""
_FULL = """\
def full(size: List[int], fill_value: number, {options}) -> Tensor:
  if torch.__is__(dtype, None):
    _0 = torch.full(size, float(fill_value), {given})
  else:
    _0 = torch.full(size, fill_value, {given})
  return _0
"""

_CONVERTED = """\
def {name}({given}) -> {type}:
  return {type}({call})
"""

_CROSS = """\
def cross(self: Tensor, other: Tensor, dim: Optional[int]) -> Tensor:
  if torch.__is__(dim, None):
    _0 = True
  else:
    _0 = torch.eq(unchecked_cast(int, dim), -1)
  if _0:
    _1 = torch.cross(self, other, None)
  else:
    _1 = torch.cross(self, other, dim)
  return _1
"""

TEXT: Final = "".join(
    (
        _CROSS,
        _DIVISION.format(name="div_tensor", suffix="", **_TENSOR),
        _DIVISION.format(name="div_number", suffix="", **_NUMBER),
        _DIVISION.format(name="div_tensor_", suffix="_", **_TENSOR),
        _DIVISION.format(name="div_number_", suffix="_", **_NUMBER),
        _FULL.format(**_FILLED),
        _POINTS.format(name="linspace", more="", base="", **_FILLED),
        _POINTS.format(name="logspace", more="base: float, ", base="base, ", **_FILLED),
        _CONVERTED.format(name="pow", given="a: int, b: int", type="int", call="torch.pow(a, b)"),
        _CONVERTED.format(name="ceil", given="a: float", type="float", call="torch.ceil(a)"),
        _CONVERTED.format(name="floor", given="a: float", type="float", call="torch.floor(a)"),
    )
)

# By torch's names of the old operators, which methods run by their version, and by the overloads
# whose results had another type. The others mean what they meant.
FUNCTIONS: Final[Mapping[str, str]] = {
    "div_Tensor_0_3": f"{_QUALIFIER}.div_tensor",
    "div_Scalar_0_3": f"{_QUALIFIER}.div_number",
    "div__Tensor_0_3": f"{_QUALIFIER}.div_tensor_",
    "div__Scalar_0_3": f"{_QUALIFIER}.div_number_",
    "full_0_4": f"{_QUALIFIER}.full",
    "linspace_0_7": f"{_QUALIFIER}.linspace",
    "logspace_0_8": f"{_QUALIFIER}.logspace",
    "aten::pow.int": f"{_QUALIFIER}.pow",
}
# Torch 1.0 wrote -1 for the first dimension with three elements.
FUNCTIONS_OF_1_0: Final[Mapping[str, str]] = {**FUNCTIONS, "aten::cross": f"{_QUALIFIER}.cross"}
# Those of torch 1.1 alone.
FUNCTIONS_OF_1_1: Final[Mapping[str, str]] = {
    **FUNCTIONS,
    "aten::ceil.float": f"{_QUALIFIER}.ceil",
    "aten::floor.float": f"{_QUALIFIER}.floor",
}
