"""A small sound archive as a seed of mutation, made without torch."""

from __future__ import annotations

import io
import struct
from functools import cache

from tsarchive.container import NewRecord, write_container
from tsarchive.pickler import (
    Global,
    MarkedTuple,
    Object,
    PersistentId,
    Reduce,
    Value,
    dumps,
)

_CODE = """\
class Model(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  training : bool
  names : List[str]
  scale : Optional[float]
  def forward(self: __torch__.Model,
    x: Tensor,
    n: int=2) -> Tensor:
    weight = self.weight
    y = torch.add(torch.mul(x, weight), CONSTANTS.c0, alpha=n)
    for i in range(n):
      if torch.gt(i, 0):
        y0 = torch.relu(y)
      else:
        y0 = torch.neg(y)
      y = y0
    return (self).scaled(y, )
  def scaled(self: __torch__.Model,
    y: Tensor) -> Tensor:
    scale = self.scale
    if torch.__is__(scale, None):
      z = y
    else:
      z = torch.mul(y, unchecked_cast(float, scale))
    return z
"""


def small_code() -> str:
    """Return the code record, ``code/__torch__.py``, of :func:`small_archive`."""
    return _CODE


@cache
def small_pickle() -> bytes:
    """Return the ``data.pkl`` of :func:`small_archive`."""
    state: dict[Value, Value] = {
        "weight": _call("torch._utils", "_rebuild_parameter", _tensor("0"), True, _no_hooks()),
        "training": False,
        "names": _call("torch.jit._pickle", "restore_type_tag", ["a", "b"], "List[str]"),
        "scale": 0.5,
    }
    return dumps(Object(Global("__torch__", "Model"), state))


@cache
def small_archive() -> bytes:
    """Return an archive of a module with a parameter, a constant, two methods and control flow."""
    numbers = struct.pack("<4f", 1, 2, 3, 4)
    records = {
        "data.pkl": small_pickle(),
        "code/__torch__.py": _CODE.encode(),
        "data/0": numbers,
        "constants/0": numbers,
        "constants.pkl": dumps((_tensor("0"),)),
        "version": b"3\n",
    }
    written = io.BytesIO()
    write_container(written, [NewRecord(name, data) for name, data in records.items()])
    return written.getvalue()


def _tensor(key: str) -> Reduce:
    """Return a vector of four float32."""
    storage = PersistentId(("storage", Global("torch", "FloatStorage"), key, "cpu", 4))
    arguments = (storage, 0, MarkedTuple((4,)), MarkedTuple((1,)), False, _no_hooks())
    return _call("torch._utils", "_rebuild_tensor_v2", *arguments)


def _no_hooks() -> Reduce:
    return _call("collections", "OrderedDict")


def _call(module: str, name: str, *arguments: Value) -> Reduce:
    return Reduce(Global(module, name), MarkedTuple(arguments))
