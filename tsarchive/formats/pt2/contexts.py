"""Classes of context managers, as torch writes them into code records.

``with torch.no_grad():`` in TorchScript code is an object of such a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

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
FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "code/__torch__/torch/autograd/grad_mode.py": _grad_mode_class("no_grad", False)
        + _grad_mode_class("enable_grad", True),
        "code/__torch__/torch/amp/autocast_mode.py": _AUTOCAST_CLASS,
    }
)
