"""Parts of torch's Python library that programs use, as TorchScript classes and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.schema import FunctionSchema

from . import quantized_decomposed
from .operators import Target

# The operator version of the texts.
_VERSION: Final = 10

_GRAD_MODE: Final = "__torch__.torch.autograd.grad_mode"
NO_GRAD: Final = f"{_GRAD_MODE}.no_grad"
WITH_GRAD: Final = f"{_GRAD_MODE}.enable_grad"
AUTOCAST: Final = "__torch__.torch.amp.autocast_mode.autocast"


def _grad_mode_class(name: str, is_enabled: bool) -> str:
    return f"""\
class {name}:
  prev : bool
  def __enter__(self: {_GRAD_MODE}.{name}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled({is_enabled})
    return None
  def __exit__(self: {_GRAD_MODE}.{name},
    exc_type: Any,
    exc_value: Any,
    traceback: Any) -> NoneType:
    prev = self.prev
    torch.set_grad_enabled(prev)
    return None
  def __init__(self: {_GRAD_MODE}.{name}) -> NoneType:
    self.prev = False
    return None
"""


_AUTOCAST_CLASS: Final = f"""\
class autocast:
  fast_dtype : int
  _enabled : bool
  device : str
  def __call__(self: {AUTOCAST},
    func: Tensor) -> Tensor:
    return func
  def __enter__(self: {AUTOCAST}) -> {AUTOCAST}:
    return self
  def __exit__(self: {AUTOCAST},
    exc_type: Any,
    exc_val: Any,
    exc_tb: Any) -> NoneType:
    return None
  def __init__(self: {AUTOCAST},
    device_type: str,
    dtype: Optional[int]=None,
    enabled: bool=True,
    cache_enabled: Optional[bool]=None) -> NoneType:
    device_type0 = unchecked_cast(str, device_type)
    if torch.__is__(dtype, None):
      _1 = torch.get_autocast_dtype(device_type0)
      _0 = _1
    else:
      _0 = unchecked_cast(int, dtype)
    self.fast_dtype = _0
    self._enabled = enabled
    self.device = device_type0
    return None
"""

# ``with torch.no_grad():`` in TorchScript code is an object of such a class.
_CONTEXT_MANAGERS: Final[Mapping[str, str]] = {
    "code/__torch__/torch/autograd/grad_mode.py": _grad_mode_class("no_grad", False)
    + _grad_mode_class("enable_grad", True),
    "code/__torch__/torch/amp/autocast_mode.py": _AUTOCAST_CLASS,
}


class Library:
    """Parses the texts; each class and function on first use."""

    def __init__(self, operators: Callable[[str], Sequence[FunctionSchema]]) -> None:
        self._code = CodeImporter(
            {**_CONTEXT_MANAGERS, **quantized_decomposed.files()},
            operators=operators,
            constant=_no_constant,
            version=_VERSION,
            native_class=lambda name: None,
            evaluate=lambda schema: None,
        )

    def class_of(self, qualified_name: str) -> ClassType:
        found = self._code.find_class(qualified_name)
        assert isinstance(found, ClassType)
        return found

    def function(self, target: Target) -> Function | None:
        """Return the implementation of an operator that torch has in Python; None for others."""
        name = quantized_decomposed.FUNCTIONS.get(target)
        if name is None:
            return None
        found = self._code.find(name)
        assert isinstance(found, FunctionType)
        return found.function


def _no_constant(index: int) -> tuple[object, ClassType]:
    raise IndexError(index)
