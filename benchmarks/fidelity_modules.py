"""Discovery of modules to compare in any importable package, with guessed example inputs.

A Python module with a function `all_cases` gives its own cases, objects with `name` and
`build()`. In any other, each subclass of `torch.nn.Module` that it defines is made with guessed
arguments, then scripted, and traced with the first guess of inputs that its forward accepts.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

Subject = tuple[str, Callable[[], Any]]
MAX_PARAMETERS = 5_000_000

# Guesses by part of a parameter's name, the first that matches; widths come from `_WIDTHS`.
GUESSES: tuple[tuple[str, Any], ...] = (
    ("kernel", 3), ("stride", 1), ("padding", 1), ("dilation", 1), ("groups", 1),
    ("head", 2), ("num_layers", 2), ("n_layers", 2), ("depth", 2), ("repeat", 2),
    ("dropout", 0.1), ("drop", 0.1), ("prob", 0.1), ("rate", 0.1), ("eps", 1e-5),
    ("alpha", 0.5), ("beta", 0.5), ("gamma", 0.5), ("temperature", 0.5), ("scale", 2),
    ("norm_layer", nn.BatchNorm2d), ("act_layer", nn.ReLU), ("act", nn.ReLU()),
    ("bias", True), ("device", None), ("dtype", None),
)  # fmt: skip
MODULE_NAMES = ("module", "model", "net", "layer", "block", "backbone", "encoder", "decoder", "fn")
CONFIG_NAMES = ("config", "cfg", "args", "opt", "hparams", "params")
_WIDTHS = (4, 16, 64)
_INPUTS: tuple[Callable[[int], torch.Tensor], ...] = (
    lambda width: torch.randn(2, width, 16, 16),
    lambda width: torch.randn(2, 3, 64, 64),
    lambda width: torch.randn(2, width),
    lambda width: torch.randn(2, 4, width),
    lambda width: torch.randn(2, width, 16),
    lambda width: torch.randint(0, 4, (2, 4)),
    lambda width: torch.randn(2, width, 8, 8, 8),
    lambda width: torch.randn(2, 1, 64),
)


class Config(dict):  # type: ignore[type-arg]
    """A stand-in for a configuration object with every attribute, guessed by its name."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return guess(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY), self.width)


def subjects(name: str) -> Iterator[Subject]:
    """Yield every subject of a module, and of all modules below it."""
    try:
        module = importlib.import_module(name)
    except Exception as error:
        yield name, Unimportable(error)
        return
    if hasattr(module, "all_cases"):
        yield from ((case.name, case.build) for case in module.all_cases())
        return
    yield from module_subjects(module)
    for child in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if child.name not in ("__main__", "tests", "testing", "conftest", "setup"):
            yield from subjects(f"{name}.{child.name}")


class Unimportable:
    """A stand-in for the subjects of a module whose dependencies are not installed."""

    def __init__(self, error: Exception) -> None:
        self.error = f"{type(error).__name__}: {error}"

    def __call__(self) -> None:
        return None


def module_subjects(module: ModuleType) -> Iterator[Subject]:
    for name, class_ in list(vars(module).items()):
        if not (inspect.isclass(class_) and issubclass(class_, nn.Module)):
            continue
        if class_.__module__ != module.__name__ or issubclass(class_, torch.jit.ScriptModule):
            continue
        label = f"{module.__name__}.{name}"
        yield f"{label} scripted", lambda class_=class_: scripted(class_)
        yield f"{label} traced", lambda class_=class_: traced(class_)


def instances(class_: type[nn.Module]) -> Iterator[tuple[int, nn.Module]]:
    """Yield instances made with guessed arguments, with the width that was guessed."""
    for width in _WIDTHS:
        torch.manual_seed(0)
        try:
            made = class_(**guessed_arguments(class_, width))
            size = sum(parameter.numel() for parameter in made.parameters())
        except Exception:
            continue
        if size <= MAX_PARAMETERS:
            yield width, made.eval()


def guessed_arguments(class_: type[nn.Module], width: int) -> dict[str, Any]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: guess(parameter, width)
        for name, parameter in inspect.signature(class_).parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind not in kinds
    }


def guess(parameter: inspect.Parameter, width: int) -> Any:
    name = parameter.name.lower()
    if name in CONFIG_NAMES or name.endswith("config"):
        return Config(width)
    if parameter.annotation in (bool, "bool") or name.startswith(("use_", "is_", "with_")):
        return False
    if parameter.annotation in (float, "float"):
        return 0.5
    for part, value in GUESSES:
        if part in name:
            return value
    if name in MODULE_NAMES:
        return nn.Linear(width, width)
    if "layers" in name or "channels_list" in name or "sizes" in name or "dims" in name:
        return [width, width]
    return width


def scripted(class_: type[nn.Module]) -> Any:
    """Return the first instance that torch.jit.script accepts; None when there is none."""
    for _, made in instances(class_):
        try:
            return torch.jit.script(made)
        except Exception:
            continue
    return None


def traced(class_: type[nn.Module]) -> Any:
    """Return the first instance that can be traced with guessed inputs; None when there is none."""
    for width, made in instances(class_):
        count = required_inputs(made)
        for make in _INPUTS if count else ():
            inputs = tuple(make(width) for _ in range(count))
            try:
                made(*inputs)
                return torch.jit.trace(made, inputs, check_trace=False, strict=False)
            except Exception:
                continue
    return None


def required_inputs(module: nn.Module) -> int:
    empty = inspect.Parameter.empty
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = inspect.signature(module.forward).parameters.values()
    required = sum(p.default is empty and p.kind in positional for p in found)
    return required or min(1, len(found))
