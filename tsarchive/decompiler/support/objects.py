"""Objects and contexts of TorchScript that Python has no other form for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch


def new(class_: Any, slots: dict[str, Any]) -> Any:
    """An object whose ``__init__`` is not called."""
    made = class_.__new__(class_)
    made.__dict__.update(slots)
    return made


def native(name: str, state: Any) -> Any:
    """An object of a class that a library of torch defines, such as packed weights."""
    schema = torch._C.parse_schema(f"f({name} x) -> ()")
    type_: Any = schema.arguments[0].type
    made: Any = torch._C._create_object_with_type(type_)
    made._get_method("__setstate__")(state)
    return made


_UNKNOWN = ("Unknown type name", "Unknown custom class type")


class Foreign:
    """An object of a class of a library that was not imported: its state is all there is."""

    def __init__(self, name: str, state: Any, advice: str) -> None:
        self.name = name
        self.state = state
        self.advice = advice

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"the class {self.name} is not registered. {self.advice}")


def foreign(name: str, state: Any, advice: str) -> Any:
    """An object of a class that a library defines, or what stands for it without the library."""
    try:
        return native(name, state)
    except RuntimeError as error:
        if not any(text in str(error) for text in _UNKNOWN):
            raise
        return Foreign(name, state, advice)


def operator(name: str, advice: str) -> Callable[..., Any]:
    """An operator that a library registers; ``advice`` is for where it has not."""
    namespace, _, short = name.partition("::")
    found: Any = getattr(getattr(torch.ops, namespace), short, None)
    if found is None:
        raise RuntimeError(f"the operator {name} is not registered. {advice}")
    return found  # type: ignore[no-any-return]


def missing(reason: str) -> NoReturn:
    """Stands for an operator that only torch's own interpreter has."""
    raise RuntimeError(reason)


@contextmanager
def entered(manager: Any) -> Iterator[Any]:
    """``with manager``, where the result of ``__exit__`` does not stop an exception."""
    value = manager.__enter__()
    try:
        yield value
    finally:
        manager.__exit__(None, None, None)


@contextmanager
def casting(manager: Any) -> Iterator[Any]:
    """``with torch.autocast(...)``: the dispatcher casts, the object only says how."""
    dtypes = {5: torch.float16, 6: torch.float32, 15: torch.bfloat16}
    dtype = dtypes.get(manager.fast_dtype)
    casts = torch.autocast(manager.device, dtype=dtype, enabled=manager._enabled)
    with entered(manager) as value, casts:
        yield value
