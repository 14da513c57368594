"""Methods that are printed like others: the same records as when each is printed by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from torch import nn

from tsarchive.printer import copies
from tsarchive.printer.copies import Pairs, Sample, Samples, Store
from tsarchive.printer.definitions import Definitions
from tsarchive.saving import saved_records


def scaling() -> Callable[[torch.Tensor], torch.Tensor]:
    def change(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return change


def shifting() -> Callable[[torch.Tensor], torch.Tensor]:
    def change(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    return change


SCALE, SHIFT = scaling(), shifting()


class Text(nn.Module):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
        return x, self.text


class Constant(nn.Module):
    __constants__ = ("value",)

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: torch.Tensor):  # the type of the value
        return x, self.value


class Casts(nn.Module):
    def __init__(self, is_int: bool) -> None:
        super().__init__()
        self.is_int = is_int

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_int:
            return x + int(x.sum())
        return x + float(x.sum())


class Calls(nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Flow(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(size, size), nn.Linear(size, size)])
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor, count: int = 2) -> torch.Tensor:
        for index in range(count):
            if index % 2 == 0:
                x = self.step(x)
        return x

    def step(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.inner:
            x = layer(x) * self.weight
        x = x + 1
        x = x + 2
        return x


class Alike(Flow):
    """Printed in the same record, whose counters it moves on."""


class Held(nn.Module):
    """A tensor in the code itself, which tracing makes."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([self.value, 1.0])


class Several(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            part(x)
        return x


TENSORS = [torch.tensor([float(number), 1.0]) for number in range(50)]


class Adds(nn.Module):
    """Many tensors in the code of one method, once it is traced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for tensor in TENSORS:
            x = x + tensor
        return x


def constants(*values: object) -> nn.Module:
    return Several(*map(Constant, values))


SCRIPTED = {
    "layers": Several(*(nn.Conv2d(2, 2, size, stride=size) for size in (1, 2, 1, 2, 3))),
    "norms": Several(*(nn.BatchNorm2d(2, eps=eps) for eps in (0.1, 0.2, 0.1))),
    "quoted strings": constants("it's {}", 'it"s', "'Tensor'", '"Float"', '\\"%a', '\\"%b'),
    "strings": constants("Tensor", "Float(1)", "Float(2)", "%a", "%b", "Long", "é", '"', "\\"),
    "names in strings": constants("__torch__.a", "__torch__.b", "x", ", scope: a", ", scope: b"),
    "numbers": constants(1, 1.0, True, 2, 0.1, 0.1 + 1e-17, -0.0, 0.0, 1e300, float("nan")),
    "lists": constants([1], [2], (1, 2), (1, 3), ["a"], ["b"], None),
    "casts": Several(Casts(True), Casts(False), Casts(True)),
    "flow": Several(Alike(2), Flow(2), Flow(3), Alike(2)),
    "functions": Several(Calls(SCALE), Calls(SHIFT), Calls(SCALE)),
    "attributes": Several(Text("a"), Text("b")),
    "functions of torch": Several(*(nn.TransformerEncoderLayer(2, n) for n in (1, 2, 1))),
    "versions": Several(nn.GELU(), nn.GELU()),
}
TRACED = {
    "layers": nn.Sequential(*(nn.Linear(2, 2) for _ in range(3)), nn.ReLU(), nn.ReLU()),
    "tensors": nn.Sequential(Held(1.0), Held(2.0), Held(1.0)),
    "tensors equal to none": nn.Sequential(Held(float("nan")), Held(float("nan"))),
    "nested": nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(3))),
}


@pytest.fixture(autouse=True)
def no_text_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Samples, "kept", Store())


def records(module: torch.nn.Module) -> list[tuple[str, bytes]]:
    return [(record.name, bytes(record.data)) for record in saved_records(module)]


def assert_copies_change_nothing(module: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    with_copies, again = records(module), records(module)
    with monkeypatch.context() as context:
        context.setattr(Definitions, "has_samples", False)
        assert with_copies == again == records(module)


@pytest.mark.parametrize("name", SCRIPTED)
def test_scripted_copies_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_copies_change_nothing(torch.jit.script(SCRIPTED[name]), monkeypatch)


@pytest.mark.parametrize("name", TRACED)
def test_traced_copies_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = torch.jit.trace(TRACED[name], torch.ones(1, 2))
    assert_copies_change_nothing(traced, monkeypatch)


def test_copies_of_what_was_loaded_change_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory
) -> None:
    path = f"{tmp_path}/layers.pt"
    torch.jit.save(torch.jit.script(SCRIPTED["layers"]), path)
    assert_copies_change_nothing(torch.jit.load(path), monkeypatch)


def test_texts_of_earlier_saves_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants have other places in the table, and functions of one name are others."""
    for values in ((1.0, 2.0), (2.0, 1.0), (2.0,)):
        traced = torch.jit.trace(nn.Sequential(*map(Held, values)), torch.ones(1, 2))
        assert_copies_change_nothing(traced, monkeypatch)
    for functions in ((SCALE,), (SHIFT,), (SHIFT, SCALE)):
        module = Several(*map(Calls, functions))
        assert_copies_change_nothing(torch.jit.script(module), monkeypatch)


def test_methods_are_printed_once_in_a_process(printed: list[str]) -> None:
    module = torch.jit.script(nn.TransformerEncoderLayer(4, 2))
    saved_records(module)
    printed.clear()
    saved_records(module)
    assert not printed


def test_texts_are_kept_of_so_many_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_MOST", 3)
    saved_records(torch.jit.script(nn.TransformerEncoderLayer(4, 2)))
    assert len(Samples.kept) == 3


def test_texts_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    module = torch.jit.script(nn.TransformerEncoderLayer(4, 2))
    expected = records(module)
    most = sum(sample.size for sample in kept_samples()) // 2
    monkeypatch.setattr(copies, "_MOST_SIZE", most)
    monkeypatch.setattr(Samples, "kept", Store())
    assert records(module) == records(module) == expected
    assert most / 2 < sum(sample.size for sample in kept_samples()) <= most


def test_no_text_is_kept_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch, printed: list[str]
) -> None:
    monkeypatch.setattr(copies, "_MOST_SIZE", 100)
    module = torch.jit.script(nn.TransformerEncoderLayer(4, 2))
    assert records(module) == records(module)
    assert len(Samples.kept) > 1
    assert not kept_samples()
    assert printed


def traced(module: nn.Module) -> nn.Module:
    return torch.jit.trace(module, torch.ones(1, 2))


SIZED: dict[str, Callable[[], nn.Module]] = {
    "functions": lambda: torch.jit.script(nn.TransformerEncoderLayer(4, 2)),
    "submodules": lambda: traced(nn.Sequential(*(nn.ReLU() for _ in range(100)))),
    "tensors": lambda: traced(Adds()),
}


@pytest.mark.parametrize("name", SIZED)
def test_the_size_of_what_is_kept_is_that_of_its_memory(name: str) -> None:
    """Layouts among it: the text is saved at other lines, and read back."""
    for _ in range(2):
        saved_records(SIZED[name]())
    assert kept_samples()
    for sample in kept_samples():
        parts = [getattr(sample, field.name) for field in fields(sample) if field.name != "kinds"]
        memory = sys.getsizeof(sample) + sys.getsizeof(sample.kinds) + sum(map(memory_of, parts))
        assert sample.size / 8 < memory < sample.size


def kept_samples() -> list[Sample]:
    return [sample for sample in Samples.kept._samples.values() if sample is not None]


def memory_of(value: object) -> int:
    """The bytes of a value and of all in it."""
    parts: list[object] = []
    if isinstance(value, tuple | list):
        parts += value
    elif isinstance(value, dict):
        parts += [*value, *value.values()]
    elif isinstance(value, Pairs):
        parts += [value._first, value._second]
    return sys.getsizeof(value) + sum(map(memory_of, parts))


# The bodies of two forwards whose values differ in names alone, that torch prints as they are.
NAMES = {
    "types": ("Long, Short", "Long - Short", "Short - Long"),
    "two types": ("Float, Bool", "Float - Bool", "Bool - Float"),
    "prefixes of classes": (
        "__torch__a, __torch__b",
        "__torch__a - __torch__b",
        "__torch__b - __torch__a",
    ),
    "one local": ("x, y", "(Half := x.relu()) - y * Half", "(Float := x.relu()) - y * Float"),
}


def forwarding(parameters: str, result: str) -> nn.Module:
    made: dict[str, type[nn.Module]] = {"Module": nn.Module}
    exec(f"class Net(Module):\n    def forward(self, {parameters}): return {result}", made)
    return made["Net"]()


@pytest.mark.parametrize("name", NAMES)
def test_names_of_values_are_no_types(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, *results = NAMES[name]
    for result in results:
        example = torch.ones(2), torch.full((2,), 5.0)
        traced = torch.jit.trace(forwarding(parameters, result), example)
        assert_copies_change_nothing(traced, monkeypatch)


class Holder(nn.Module):
    """Calls a submodule of any name, in either order of its arguments."""

    def __init__(self, name: str, inner: nn.Module, *, turned: bool = False) -> None:
        super().__init__()
        self.name, self.turned = name, turned
        self.add_module(name, inner)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        inner = getattr(self, self.name)
        return inner(y, x) if self.turned else inner(x, y)


class Einsum(nn.Module):
    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.einsum(self.equation, torch.relu(x), y)


@pytest.mark.parametrize("name", ['q"', '"', 'a "b', ", scope: q", "b, scope: q", "a-b", "x, %y"])
def test_names_of_modules_are_any_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example = torch.rand(2, 2, 2, 2), torch.rand(2, 2)
    for equation in ("Long,Ln->", "Half,Ln->"):
        holder = Holder(name, Einsum(equation))
        assert_copies_change_nothing(torch.jit.trace(holder, example), monkeypatch)
    for turned in (False, True):
        holder = Holder(name, forwarding("x, y", "x - y"), turned=turned)
        assert_copies_change_nothing(torch.jit.trace(holder, example), monkeypatch)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are printed, and not copied."""
    found: list[str] = []
    plainly = Definitions._print_function

    def noted(self: Definitions, function: object) -> None:
        found.append(str(function))
        plainly(self, function)

    monkeypatch.setattr(Definitions, "_print_function", noted)
    return found


def test_equal_methods_are_printed_once(printed: list[str]) -> None:
    kinds = [type(f"Linear{number}", (nn.Linear,), {}) for number in range(3)]
    saved_records(torch.jit.script(nn.Sequential(*(kind(2, 2) for kind in kinds))))
    assert sum("Linear" in name for name in printed) == 1
