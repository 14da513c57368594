"""The measured networks by name, their archives, and their arguments."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import convolutional
import programs
import sequences
import torch
from torch import nn

from tsarchive.models import decoder, resnet

MIB = 2**20
Arguments = tuple[Any, ...]
SCRIPTED, TRACED, FROZEN = "scripted", "traced", "frozen"
EXPORTED, LOWERED = "exported", "lowered"
SUFFIXES = {SCRIPTED: "pt", TRACED: "pt", FROZEN: "pt", EXPORTED: "pt2", LOWERED: "pte"}
TORCHVISION = (
    "densenet121", "efficientnet_b0", "googlenet", "mnasnet0_5", "mobilenet_v3_small",
    "regnet_y_400mf", "shufflenet_v2_x0_5", "squeezenet1_1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Network:
    """A network that is created anew each time, with the same weights.

    forms: the forms in which it is measured: scripted, traced, exported or lowered. Each that can
    be scripted can be frozen, which makes one large function of it.
    """

    build: Callable[[], nn.Module]
    arguments: Callable[[], Arguments]
    forms: tuple[str, ...] = (SCRIPTED, TRACED)

    def live(self, form: str) -> torch.jit.ScriptModule:
        torch.manual_seed(0)
        module = self.build().eval()
        if form == SCRIPTED:
            return torch.jit.script(module)
        if form == FROZEN:
            return torch.jit.freeze(torch.jit.script(module))
        return torch.jit.trace(module, self.arguments(), check_trace=False)

    def program(self) -> torch.export.ExportedProgram:
        torch.manual_seed(0)
        return torch.export.export(self.build().eval(), self.arguments())


def image() -> Arguments:
    return (torch.linspace(-1.0, 1.0, 3 * 64 * 64).view(1, 3, 64, 64),)


def tokens() -> Arguments:
    return (torch.arange(12).view(1, 12),)


def sequence() -> Arguments:
    return (torch.linspace(-1.0, 1.0, 16 * 16).view(1, 16, 16),)


def text() -> Arguments:
    return ("the quick brown fox jumps over the lazy dog and the Quiet cat " * 20,)


NETWORKS: dict[str, Network] = {
    "resnet18": Network(resnet.ResNet18, image),
    "mobilenet": Network(convolutional.mobile_net, image),
    "efficientnet": Network(convolutional.efficient_net, image),
    "densenet": Network(convolutional.DenseNet, image),
    "shufflenet": Network(convolutional.ShuffleNet, image),
    "unet": Network(convolutional.UNet, image),
    "encoder": Network(sequences.Encoder, tokens),
    "language_model": Network(sequences.LanguageModel, tokens),
    "recurrent": Network(sequences.Recurrent, sequence),
    "decoder": Network(decoder.Decoder, decoder.example_inputs, (SCRIPTED,)),
}
PROGRAMS: dict[str, Network] = {
    "integers": Network(programs.Integers, lambda: (300,), (SCRIPTED,)),
    "floats": Network(programs.Floats, lambda: (200,), (SCRIPTED,)),
    "lists": Network(programs.Lists, lambda: (3000,), (SCRIPTED,)),
    "strings": Network(programs.Strings, text, (SCRIPTED,)),
    "characters": Network(programs.Characters, text, (SCRIPTED,)),
}


def torchvision_networks() -> dict[str, Network]:
    """Return torchvision's networks, if it is installed and can be imported."""
    try:
        from torchvision import models
    except (ImportError, RuntimeError):  # RuntimeError: built for another torch
        return {}

    def of(name: str) -> Network:
        options = {"init_weights": False} if name == "googlenet" else {}
        return Network(lambda: getattr(models, name)(weights=None, **options), image)

    return {f"torchvision.{name}": of(name) for name in TORCHVISION}


class Weights(nn.Module):
    """Layers of 64 MiB, or one smaller layer, whose weights are never all used at once."""

    def __init__(self, size: int) -> None:
        super().__init__()
        layer = min(size, 64 * MIB)
        rows = max(layer // 4096 // 4, 1)
        self.layers = nn.ModuleList(
            nn.utils.skip_init(nn.Linear, 4096, rows, bias=False) for _ in range(size // layer)
        )
        for number, linear in enumerate(self.layers):
            nn.init.constant_(linear.weight, float(number))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(x.size(0), 1)
        for layer in self.layers:
            total = total + layer(x).sum(1, keepdim=True)
        return total


class Unrolled(nn.Module):
    """One method with a given number of operators, once it is traced."""

    def __init__(self, operators: int) -> None:
        super().__init__()
        self.rounds = operators // 5
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(self.rounds):
            x = torch.relu(x * self.weight + float(number % 7)).reshape([4]) - self.weight
        return x


class Layered(nn.Module):
    """A given number of operators, each with a weight of its own."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(4)) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x * weight
        return x


class Blocks(nn.Module):
    """Weights of a given size in 200 modules, as a convolutional network has them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        channels = int((size / 4 / 9 / 100) ** 0.5)
        blocks = [
            nn.Sequential(nn.Conv2d(channels, channels, 3), nn.BatchNorm2d(channels))
            for _ in range(100)
        ]
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def many_modules(count: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(2, 2) for _ in range(count)))


def weights(size: int) -> Network:
    return Network(lambda: Weights(size), lambda: (torch.ones(1, 4096),), (SCRIPTED,))


def unrolled(operators: int) -> Network:
    return Network(lambda: Unrolled(operators), lambda: (torch.ones(4),), (TRACED,))


def layered(layers: int) -> Network:
    return Network(lambda: Layered(layers), lambda: (torch.ones(4),), (EXPORTED,))


def submodules(count: int) -> Network:
    return Network(lambda: many_modules(count), lambda: (torch.ones(1, 2),))


FAMILIES: dict[str, Callable[[int], Network]] = {
    "weights": weights,
    "unrolled": unrolled,
    "submodules": submodules,
    "layered": layered,
    "modules": lambda size: Network(lambda: Blocks(size), image, (SCRIPTED,)),
}


def network(name: str) -> Network:
    """Return the network of a name; ``weights:64`` is the member of a family, by its size."""
    family, _, size = name.partition(":")
    if size:
        return FAMILIES[family](int(size))
    return {**NETWORKS, **PROGRAMS, **torchvision_networks()}[name]


def make(name: str, form: str, folder: Path) -> dict[str, Any]:
    """Write the archive and the arguments of one network; return paths and sizes."""
    made = network(name)
    path = folder / f"{name.replace(':', '-')}.{form}.{SUFFIXES[form]}"
    if form == EXPORTED:
        torch.export.save(made.program(), path)
    elif form == LOWERED:
        lower(made.program(), path)
    else:
        torch.jit.save(made.live(form), path)
    arguments = path.with_suffix(".arguments")
    torch.save(made.arguments(), arguments)
    return {"path": str(path), "arguments": str(arguments), **sizes(path)}


def lower(program: torch.export.ExportedProgram, path: Path) -> None:
    """Write an ExecuTorch program without delegates."""
    from executorch.exir import to_edge

    with path.open("wb") as file:
        to_edge(program).to_executorch().write_to_file(file)


def sizes(path: Path) -> dict[str, int]:
    """Return the bytes of code and of tensors in an archive; unknown for ExecuTorch programs."""
    if not zipfile.is_zipfile(path):
        return {"code": 0, "weights": 0}
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    return {
        "code": sum(info.file_size for info in infos if is_code(info.filename)),
        "weights": sum(info.file_size for info in infos if "/data/" in info.filename),
    }


def is_code(record: str) -> bool:
    return record.endswith(".py") or "/models/" in record
