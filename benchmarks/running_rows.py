"""Equality of results without torch.jit: the rows of ``fidelity.py --run``.

The archive that torch.jit saves is loaded by both sides. Guessed inputs are tried until torch.jit
takes one; what it refuses must be refused here as well.
"""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

import tsarchive

OUTPUT, GRADIENTS, TRAINING, REFUSED = "output", "gradients", "training mode", "refused inputs"
ALL_ROWS = (OUTPUT, GRADIENTS, TRAINING, REFUSED)

_SHAPES = (
    (2, 3, 64, 64), (2, 4, 16, 16), (2, 16, 16, 16), (2, 64, 16, 16), (2, 4), (2, 16), (2, 64),
    (2, 4, 4), (2, 4, 16), (2, 4, 64), (2, 16, 16), (2, 64, 16), (2, 1, 64), (2, 4, 8, 8, 8), (4,),
)  # fmt: skip
_SCALARS: dict[str, tuple[Any, ...]] = {
    "int": (2, 0, 1), "float": (0.5,), "bool": (False, True), "str": ("mean", "relu"),
    "number": (2,), "NoneType": (None,), "Device": (torch.device("cpu"),), "complex": (1j,),
}  # fmt: skip
_MOST_TRIES = 60
_TOLERANCE = 1e-4


def expected_records(module: Any) -> bytes:
    """Return the archive as torch saves it; the name makes its failures count as torch's."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    torch.jit.load(io.BytesIO(file.getvalue()))
    return file.getvalue()


def compare(module: Any) -> dict[str, str]:
    """Return the rows that do not hold, each with the difference."""
    data = expected_records(module)
    found: dict[str, str] = {}
    refused = 0
    for arguments in candidates(module):
        theirs = outcome(by_torch(data), arguments)
        if isinstance(theirs, Exception):
            refused += 1
            if refused <= 3 and not isinstance(outcome(by_us(data), arguments), Exception):
                found[REFUSED] = f"{shown(arguments)}: torch raises {first_line(theirs)}"
            continue
        return {**found, **differences(data, arguments)}
    return found


def differences(data: bytes, arguments: tuple[Any, ...]) -> dict[str, str]:
    rows: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
        (OUTPUT, outcome), (GRADIENTS, gradients), (TRAINING, training),
    )  # fmt: skip
    found = {}
    for row, measure in rows:
        theirs, ours = measure(by_torch(data), arguments), measure(by_us(data), arguments)
        if not alike(theirs, ours):
            with torch.jit.optimized_execution(False):
                theirs = measure(by_torch(data), arguments)
        if not alike(theirs, ours):
            found[row] = f"{shown(arguments)}: torch {short(theirs)}, ours {short(ours)}"
    return found


def by_torch(data: bytes) -> Any:
    return torch.jit.load(io.BytesIO(data))


def by_us(data: bytes) -> Any:
    return tsarchive.load(io.BytesIO(data), policy=tsarchive.Policy.trusted())


def outcome(module: Any, arguments: tuple[Any, ...]) -> Any:
    torch.manual_seed(0)
    try:
        return module(*copy.deepcopy(arguments))
    except TimeoutError:
        raise
    except Exception as error:
        return error


def training(module: Any, arguments: tuple[Any, ...]) -> Any:
    return outcome(module.train(), arguments), dict(module.state_dict())


def gradients(module: Any, arguments: tuple[Any, ...]) -> Any:
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    total = sum(
        tensor.sum()
        for tensor in tensors(outcome(module, arguments))
        if tensor.requires_grad and tensor.is_floating_point()
    )
    if isinstance(total, torch.Tensor):
        total.backward()
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    match value:
        case torch.Tensor():
            yield value
        case list() | tuple():
            yield from itertools.chain.from_iterable(map(tensors, value))
        case dict():
            yield from tensors(list(value.values()))


def candidates(module: Any) -> Iterator[tuple[Any, ...]]:
    """Yield arguments by the schema of ``forward``, one shape of tensors at a time."""
    try:
        schema = module._c._get_method("forward").schema
    except (AttributeError, RuntimeError):
        return
    required = [a for a in schema.arguments[1:] if not a.has_default_value()]
    choices = (
        choice
        for shape in _SHAPES
        for choice in itertools.product(*(guesses(str(a.type), shape) for a in required))
    )
    yield from itertools.islice(choices, _MOST_TRIES)


def guesses(type_: str, shape: tuple[int, ...]) -> list[Any]:
    if type_ == "Tensor":
        torch.manual_seed(1)
        found: list[Any] = [torch.rand(shape)]
        return found + ([torch.randint(0, 4, shape)] if len(shape) <= 2 else [])
    if type_.startswith("Optional["):
        return [None]
    for container in ("List", "Tuple"):
        if type_.startswith(f"{container}[Tensor"):
            count = type_.count("Tensor")
            made = [torch.rand(shape) for _ in range(max(count, 2))]
            return [made if container == "List" else tuple(made[:count])]
    if type_ == "List[int]":
        return [[4, 4]]
    return list(_SCALARS.get(type_, ()))


def alike(one: Any, two: Any) -> bool:
    """Compare bitwise, or up to the order of float additions."""
    match one, two:
        case Exception(), Exception():
            return True
        case torch.Tensor(), torch.Tensor():
            return alike_tensors(one, two)
        case (list(), list()) | (tuple(), tuple()):
            return len(one) == len(two) and all(map(alike, one, two))
        case dict(), dict():
            return list(one) == list(two) and alike(list(one.values()), list(two.values()))
        case torch.nn.Module(), torch.nn.Module():
            return True
    return type(one).__name__ == type(two).__name__ and (one == two or one != one)


def alike_tensors(one: torch.Tensor, two: torch.Tensor) -> bool:
    if (one.dtype, one.shape, one.layout) != (two.dtype, two.shape, two.layout):
        return False
    if one.is_quantized or one.layout != torch.strided:
        one, two = (
            one.to_dense() if not one.is_quantized else one.dequantize(),
            (two.to_dense() if not two.is_quantized else two.dequantize()),
        )
    if one.dtype == torch.bool or not one.numel():
        return torch.equal(one, two)
    return torch.allclose(one, two, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def shown(arguments: tuple[Any, ...]) -> str:
    return ", ".join(
        f"{a.dtype}{list(a.shape)}".removeprefix("torch.")
        if isinstance(a, torch.Tensor)
        else repr(a)
        for a in arguments
    )[:200]


def short(value: Any) -> str:
    if isinstance(value, Exception):
        return f"raises {type(value).__name__}: {first_line(value)}"
    return repr(value)[:300]


def first_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line]
    return (lines or [""])[-1][:200]
