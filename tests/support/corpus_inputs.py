"""Arguments for the archives of the corpus, most of which come without an example of a call.

Known archives have a row; for the rest, shapes are tried until torch.jit accepts one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

FLOAT_SHAPES = (
    (1, 3, 64, 64), (1, 1, 28, 28), (4,), (), (2, 3), (1, 16), (1, 3, 224, 224), (1, 3, 6144),
    (1, 6144, 3), (6144, 3), (1, 512), (512,), (1, 160), (2, 10, 20), (5, 1, 4), (1, 4, 16, 16),
    (1, 2, 2, 2), (3, 3), (1, 16000), (1, 1, 512), (2, 4), (10, 4), (1, 64, 32), (3, 256, 256),
    (1, 80, 100), (10,), (2, 1000), (1, 1, 96, 96, 96), (1, 1, 3, 3, 3),
)  # fmt: skip
INT_SHAPES = ((1, 16), (4,), (), (2, 3), (5, 1))
QUANTIZED_SHAPES = ((2, 3, 6, 6), (2, 3, 6, 6, 6), (5, 3), (1, 5), (2, 4, 6, 6), (2, 2, 6, 6, 6))
ATOMS = 6

MakeTensor = Callable[[], torch.Tensor]


def quantized(*shape: int) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(shape), 0.5, 2, torch.quint8)


def atoms() -> list[Any]:
    coordinates = torch.rand(1, ATOMS * 3, dtype=torch.float64) * 6
    return [coordinates, torch.tensor([[0, 1, 1] * (ATOMS // 3)])]


def box() -> torch.Tensor:
    return (torch.eye(3, dtype=torch.float64) * 13).reshape(1, 9)


def atom_parameters() -> list[Any]:
    return [torch.full((1, 1), 0.25, dtype=torch.float64),
            torch.full((1, ATOMS, 1), 0.25, dtype=torch.float64)]  # fmt: skip


KNOWN: dict[tuple[str, str], Callable[[], list[Any]]] = {
    ("deepmodeling-deepmd-kit__deeppot_dpa_spin", "forward"): lambda: [
        *atoms(), torch.rand(1, ATOMS * 3, dtype=torch.float64), box()
    ],
    ("deepmodeling-deepmd-kit__deeppot_sea", "forward"): lambda: [*atoms(), box()],
    ("deepmodeling-deepmd-kit__dp-original", "forward"): lambda: [*atoms(), box()],
    ("deepmodeling-deepmd-kit__fparam_aparam", "forward"): lambda: [
        *atoms(), box(), *atom_parameters()
    ],
    ("dotnet-TorchSharp__l1000_100_10", "forward"): lambda: [torch.randn(2, 1000)],
    ("dotnet-TorchSharp__scripted", "forward"): lambda: [torch.randn(6)],
    ("opensearch-project-ml-commons__sparse_three", "forward"): lambda: [
        {"input_ids": torch.randint(0, 9, (1, 8)), "attention_mask": torch.ones(1, 8).long()}
    ],
    ("opensearch-project-ml-commons__traced_small_model", "forward"): lambda: [
        {"input_ids": torch.randint(0, 9, (1, 8)), "attention_mask": torch.ones(1, 8).long()}
    ],
    ("pypi-audiotool", "forward"): lambda: [
        torch.randn(1, 20, 400), *[torch.zeros(1, 128, 19, 1) for _ in range(4)]
    ],
    ("pypi-livekit_plugins_vad", "forward"): lambda: [torch.randn(1, 512), 16000],
    ("pypi-livekit_plugins_vad", "audio_forward"): lambda: [torch.randn(1, 4096), 16000],
    ("pypi-livekit_plugins_vad", "_validate_input"): lambda: [torch.randn(1, 512), 16000],
    ("pypi-realtime_vad_python", "forward"): lambda: [torch.randn(1, 512), 16000],
    ("pypi-realtime_vad_python", "audio_forward"): lambda: [torch.randn(1, 4096), 16000],
    ("pypi-realtime_vad_python", "_validate_input"): lambda: [torch.randn(1, 512), 16000],
    ("pypi-torchcontentarea", "forward"): lambda: [torch.randn(1, 5, 7, 7)],
    ("pytorch-android-demo-app__mobile_model1", "forward"): lambda: [torch.randn(1, 3, 416, 416)],
    ("unitreerobotics-unitree_rl_gym__motion_9566f16", "forward"): lambda: [torch.randn(1, 48)],
    ("unitreerobotics-unitree_rl_gym__motion~", "forward"): lambda: [torch.randn(1, 41)],
}  # fmt: skip


def arguments_for(path_name: str, module: Any, method: str) -> list[Any] | None:
    """Arguments that torch.jit takes for ``method`` of ``module``; None when none is found."""
    for arguments in candidates(path_name, module, method):
        try:
            with torch.jit.optimized_execution(False):  # most calls fail, all would be compiled
                call(module, method, arguments)
        except Exception:
            continue
        return arguments
    return None


def candidates(path_name: str, module: Any, method: str) -> Iterator[list[Any]]:
    for (prefix, name), make in KNOWN.items():
        if name == method and path_name.startswith(prefix):
            torch.manual_seed(1)
            yield make()
            return
    arguments = module._c._get_method(method).schema.arguments[1:]
    required = [a for a in arguments if not a.has_default_value()]
    for chosen in [required] if required == arguments else [required, arguments]:
        for make_tensor in tensors():
            torch.manual_seed(1)
            try:
                yield [example(argument.type, make_tensor) for argument in chosen]
            except LookupError:
                return


def tensors() -> Iterator[MakeTensor]:
    for shape in FLOAT_SHAPES:
        yield lambda shape=shape: torch.randn(shape)
    for shape in INT_SHAPES:
        yield lambda shape=shape: torch.randint(0, 5, shape)
    for shape in QUANTIZED_SHAPES:
        yield lambda shape=shape: quantized(*shape)
    yield lambda: torch.randint(0, 255, (1, 3, 64, 64), dtype=torch.uint8)
    yield lambda: torch.rand(2, 3) > 0.5


def example(type_: Any, tensor: MakeTensor) -> Any:
    """A value of a type of torch; raises LookupError for a type without one."""
    plain = {
        "IntType": 2, "FloatType": 0.5, "NumberType": 2, "BoolType": True, "StringType": "abc",
        "NoneType": None, "DeviceObjType": torch.device("cpu"),
    }  # fmt: skip
    match type_.kind():
        case "TensorType":
            return tensor()
        case "OptionalType":
            return example(type_.getElementType(), tensor)
        case "ListType":
            return [example(type_.getElementType(), tensor) for _ in range(2)]
        case "TupleType":
            return tuple(example(part, tensor) for part in type_.elements())
        case "DictType":
            key = example(type_.getKeyType(), tensor)
            return {key: example(type_.getValueType(), tensor)}
    return plain[type_.kind()]


def call(module: Any, method: str, arguments: list[Any]) -> Any:
    """Call with a fixed seed; the arguments are copied."""
    torch.manual_seed(0)
    function = module if method == "forward" else getattr(module, method)
    return function(*copy.deepcopy(arguments))
