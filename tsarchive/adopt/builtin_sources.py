"""Sources of the functions that torch compiles from text at startup.

Calls of them leave ranges in these texts. torch shows a range with two lines of context, so the
whole text cannot be read from it; a test compares each with the text that torch writes. With
another version of torch's text, the shown lines disagree with the text here.
"""

from __future__ import annotations

FILENAME = "<string>"
FIRST_LINE = 1

_ARITHMETIC = """
def mul(a : {scalar}, b : Tensor) -> Tensor:
  return b * a
def add(a : {scalar}, b : Tensor) -> Tensor:
  return b + a
def ne(a : {scalar}, b : Tensor) -> Tensor:
  return b != a
def eq(a : {scalar}, b : Tensor) -> Tensor:
  return b == a
def sub(a : {scalar}, b : Tensor) -> Tensor:
  return torch.neg(b) + a
def div(a : {scalar}, b : Tensor) -> Tensor:
  return torch.reciprocal(b) * a
"""

_ORDER = """
def lt(a : {scalar}, b : Tensor) -> Tensor:
  return b > a
def le(a : {scalar}, b : Tensor) -> Tensor:
  return b >= a
def gt(a : {scalar}, b : Tensor) -> Tensor:
  return b < a
def ge(a : {scalar}, b : Tensor) -> Tensor:
  return b <= a
"""

_FLOOR_DIVISION = """
def floordiv(self : Tensor, other : {other}) -> Tensor:
  return torch.floor_divide(self, other)
"""

_TENSOR_PROPERTIES = """
def ndim(a : Tensor) -> int:
  return a.dim()
def T(a : Tensor) -> Tensor:
  return a.numpy_T()
def H(a : Tensor) -> Tensor:
  return a.matrix_H()
def mT(a : Tensor) -> Tensor:
  return a.mT
def mH(a : Tensor) -> Tensor:
  return a.mH
def shape(a : Tensor) -> List[int]:
  return a.size()
"""

_FUNCTIONS = """
def _assert_int_or_pair(vals: List[int], name: str, message: str):
  pass
def list_with_default(out_size: List[int], defaults: List[int]):
  assert len(defaults) > len(out_size)
  return out_size
def _assert(condition : bool, message : str):
  assert condition, message
# existing device operator is registered with input name `a`, which prevents
# torch.device(type="cuda") from working. add shim-layer here
def device(type: str):
  return torch.device(type)
def type(self: Tensor, dtype: int, non_blocking: bool=False, copy: bool=False) -> Tensor:
  return self.to(dtype, non_blocking, copy)
"""

_MORE_FUNCTIONS = """
def _assert(condition : Tensor, message : str):
  assert bool(condition), message
def __contains__(self: str, key: str):
    return self.find(key, 0, len(self)) != -1
"""

BUILTIN_SOURCES = (
    _TENSOR_PROPERTIES,
    *(_ARITHMETIC.format(scalar=scalar) for scalar in ("int", "float", "complex")),
    *(_ORDER.format(scalar=scalar) for scalar in ("int", "float")),
    *(_FLOOR_DIVISION.format(other=other) for other in ("number", "Tensor")),
    _FUNCTIONS,
    _MORE_FUNCTIONS,
)
