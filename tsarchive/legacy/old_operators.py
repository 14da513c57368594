"""Functions that implement old operators where the version of an archive is ignored.

In a method the version determines the meaning of an operator. Functions and closures are read as
current code, so their text has to spell out the old meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

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
_OPTIONS = (
    "dtype: Optional[int], layout: Optional[int], device: Optional[Device], "
    "pin_memory: Optional[bool]"
)
_GIVEN = "dtype=dtype, layout=layout, device=device, pin_memory=pin_memory"
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

TEXT: Final = "".join(
    (
        _DIVISION.format(name="div_tensor", suffix="", **_TENSOR),
        _DIVISION.format(name="div_number", suffix="", **_NUMBER),
        _DIVISION.format(name="div_tensor_", suffix="_", **_TENSOR),
        _DIVISION.format(name="div_number_", suffix="_", **_NUMBER),
        _FULL.format(options=_OPTIONS, given=_GIVEN),
        _POINTS.format(name="linspace", more="", base="", options=_OPTIONS, given=_GIVEN),
        _POINTS.format(
            name="logspace", more="base: float, ", base="base, ", options=_OPTIONS, given=_GIVEN
        ),
    )
)

# By torch's names of the old operators. The others have not changed.
FUNCTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        upgrader: f"{_QUALIFIER}.{name}"
        for upgrader, name in (
            ("div_Tensor_0_3", "div_tensor"),
            ("div_Scalar_0_3", "div_number"),
            ("div__Tensor_0_3", "div_tensor_"),
            ("div__Scalar_0_3", "div_number_"),
            ("full_0_4", "full"),
            ("linspace_0_7", "linspace"),
            ("logspace_0_8", "logspace"),
        )
    }
)
