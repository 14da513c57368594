"""Packages that are scripted again: which methods have the code of the archive.

Annotations are values here, as torch.jit needs those of attributes.
"""

import importlib
import io
import sys
import zipfile
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import ARCHIVES, torch_saved
from tests.support.command_line import document, error, run
from tsarchive.decompiler.checking import CodeCheck, MethodCheck, checked


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


class Mode(Enum):
    FAST = 1
    SLOW = 2


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    def next(self) -> int:
        self.start += 1
        return self.start


def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * by


class Attributes(nn.Module):
    """Attributes of which a value does not tell the type."""

    sizes: list[int]
    table: dict[str, list[int]]
    bias: torch.Tensor | None
    limits: tuple[int, list[str]]

    def __init__(self) -> None:
        super().__init__()
        self.sizes = []
        self.table = {}
        self.bias = None
        self.limits = (1, [])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = self.bias
        if bias is not None:
            x = x + bias
        return x * len(self.sizes) * len(self.table) * len(self.limits[1])


class Holder(nn.Module):
    """An object of a class of its own, which the constructor makes."""

    counter: Counter

    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.counter.next()


class Calls(nn.Module):
    """A function, another method, an enum and a named tuple."""

    def __init__(self, mode: Mode = Mode.FAST) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.twice(scaled(x, 3.0))

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(scaled(x))

    @torch.jit.export
    def paired(self, x: torch.Tensor) -> Pair:
        return Pair(x, 2)

    @torch.jit.export
    def is_fast(self) -> bool:
        return self.mode == Mode.FAST


class Locals(nn.Module):
    """Variables that begin with values of no type of their own."""

    def forward(self, x: torch.Tensor, n: int) -> tuple[list[int], dict[str, float], int]:
        found: list[int] = []
        table: dict[str, float] = {}
        rows: list[list[float]] = x.tolist()
        last: int | None = None
        for row in rows:
            if row[0] > n:
                last = len(found)
            found.append(len(row))
            table["last"] = row[-1]
        return found, table, -1 if last is None else last


class Table:
    """An object that makes an empty dict of its own."""

    def __init__(self, start: int) -> None:
        self.counts: dict[str, int] = {}
        self.start = start

    def add(self, name: str) -> int:
        self.counts[name] = self.counts.get(name, self.start) + 1
        return self.counts[name]


class Tables(nn.Module):
    def forward(self, names: list[str]) -> dict[str, int]:
        table = Table(2)
        for name in names:
            table.add(name)
        return table.counts


class Helpers(nn.Module):
    """Operators that are functions of the package: text in bytes, sums, fits of 64 bits."""

    def forward(self, text: str, values: list[int]) -> tuple[int, int, list[str]]:
        total = sum(values) * len(text)
        while total < 1000 and total > 0:
            total = total * 3 + 1
        return total, total % len(values), text.upper().split()


class Chain(nn.Module):
    """Branches that leave, the last one too."""

    def forward(self, n: int) -> str:
        if n == 1:
            return "one"
        elif n == 2:
            return "two"
        else:
            raise ValueError(f"neither: {n}")


class Defaults(nn.Module):
    """Methods that call each other without arguments that have defaults."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x) + self.scaled(x, by=3)

    def scaled(self, x: torch.Tensor, by: int = 2) -> torch.Tensor:
        return x * by

    @torch.jit.export
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(self.scaled(x))


class Layers(nn.Module):
    """A loop over modules, whose reads TorchScript puts before the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)])
        self.sizes = [1, 2]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        for layer in self.layers:
            x = layer(x)
        shape = x.size()
        return x, shape + self.sizes


class Overloads(nn.Module):
    """Operators that Python reaches under their full names."""

    def forward(self, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        values, at, counts = torch._unique2(x, return_inverse=True, return_counts=True)
        stored = torch.index_put(x, [torch.tensor([0])], values[:1])
        return stored + at.sum() + counts.sum() + torch.tensor(2)


class Room(nn.Module):
    """A property, and a state."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 3
        self.training = False

    @property
    def room(self) -> int:
        return self.limit - 1

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        return self.limit, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.limit, self.training = state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.room


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = 1
    GREEN = 2


class Values(nn.Module):
    """Named tuples, enums, and text that stands in the table of constants."""

    def forward(self, n: int, colour: Colour) -> tuple[Point, str]:
        return Point(n + 1, n + 2), "é" if colour == Colour.RED else "a"


class Forked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        later = torch.jit.fork(scaled, x, 2.0)
        return x + torch.jit.wait(later)


class Pads(nn.Module):
    """Operators that Python calls by torch's functions, and types of values that may be any."""

    def forward(self, x: torch.Tensor, value: Any) -> torch.Tensor:
        y = torch._C._nn.pad(x, [1, 1])
        if isinstance(value, int):
            y = y + value
        return torch._C._nn.adaptive_avg_pool2d(y, [1, 1])


@torch.jit.interface
class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass

    def name(self) -> str:
        pass


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.jit.export
    def name(self) -> str:
        return "doubled"


class Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @torch.jit.export
    def name(self) -> str:
        return "halved"


class Choosing(nn.Module):
    """Modules behind an interface, one of whose methods nothing calls by the class that has it."""

    first: Named

    def __init__(self) -> None:
        super().__init__()
        self.first = Doubled()
        self.rest = nn.ModuleList([Doubled(), Halved()])

    def forward(self, x: torch.Tensor, which: int) -> tuple[torch.Tensor, str]:
        chosen: Named = self.rest[which]
        return chosen.forward(self.first.forward(x)), chosen.name()


class Mixed(nn.Module):
    """What torch.jit has no source for as the package writes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 2), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) > 2:
            x = x[:2]
        return self.body(x)


MODULES: list[Callable[[], nn.Module]] = [
    Attributes, Chain, Calls, Choosing, Defaults, Forked, Helpers, Holder, Layers, Locals, Net,
    Overloads, Pads, Room, Tables, Values,
]  # fmt: skip
COMING_BACK = [
    "class_interface", "enum_attribute", "final_scalars", "frozen", "if_elif_else",
    "module_interface", "module_list_value", "named_tuple", "pre_hook", "trace_numbers",
    "union_of_two", "with_profiler",
]  # fmt: skip


def outcomes(check: CodeCheck) -> dict[str, str]:
    return {method.name.rpartition("__.")[2]: method.outcome for method in check.methods}


def decompiled(module: nn.Module, folder: Path) -> tuple[io.BytesIO, tsarchive.DecompileReport]:
    """An archive with its package, which is not checked."""
    archive = io.BytesIO(torch_saved(torch.jit.script(module)))
    return archive, tsarchive.decompile(archive, folder)


def edited(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.sample(4)
@pytest.mark.parametrize("make", MODULES)
def test_the_code_of_modules_comes_back(make, tmp_path):
    archive = io.BytesIO(torch_saved(torch.jit.script(make())))
    check = tsarchive.decompile(archive, tmp_path / "package", check=True).check
    assert check is not None
    assert [each for each in check.methods if each.outcome != "equal"] == []
    assert check.same


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", COMING_BACK)
def test_the_code_of_archives_comes_back(name, tmp_path):
    report = tsarchive.decompile(ARCHIVES / f"{name}.pt", tmp_path / "package", check=True)
    assert report.check is not None
    assert {*outcomes(report.check).values()} == {"equal"}


def test_numbers_below_0_choose_no_module(tmp_path, monkeypatch):
    archive = torch_saved(torch.jit.script(Choosing()))
    tsarchive.decompile(io.BytesIO(archive), tmp_path / "choosing_package")
    monkeypatch.syspath_prepend(tmp_path)
    written = importlib.import_module("choosing_package").load()
    theirs = torch.jit.load(io.BytesIO(archive))
    x = torch.ones(2)
    for which in (0, 1):
        assert [*map(str, written(x, which))] == [*map(str, theirs(x, which))]
    for which in (-1, 2):
        for net in (written, theirs):
            with pytest.raises((KeyError, RuntimeError)):
                net(x, which)


class Smooth(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x) + 1


def aged(data: bytes, version: int) -> io.BytesIO:
    """An archive as one of another version of the format."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as own, zipfile.ZipFile(made, "w") as other:
        for name in own.namelist():
            is_version = name.endswith("/.data/version")
            other.writestr(name, f"{version}\n" if is_version else own.read(name))
    made.seek(0)
    return made


def test_operators_of_older_releases_come_back(tmp_path):
    archive = aged(torch_saved(torch.jit.script(Smooth())), 9)
    report = tsarchive.decompile(archive, tmp_path / "package", check=True)
    assert report.check is not None
    assert {*outcomes(report.check).values()} == {"equal"}
    file = next((tmp_path / "package").rglob("test_checking.py"))
    file.write_text(file.read_text().replace("gelu_0_9(x)", "torch.nn.functional.gelu(x)"))
    archive.seek(0)
    check = checked(archive, report.out, report.definitions, report.operators)
    assert {*outcomes(check).values()} == {"differs"}


class Foreign(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x) + 1


def test_operators_that_no_library_has_registered_come_back(tmp_path):
    archive = io.BytesIO()
    data = torch_saved(torch.jit.script(Foreign()))
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(archive, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, text.replace(b"torch.neg(x)", b"ops.elsewhere.filter(x, 2, 0.5)"))
    archive.seek(0)
    report = tsarchive.decompile(archive, tmp_path / "package", check=True)
    assert report.check is not None
    assert [*outcomes(report.check).values()] == ["equal"]
    edited(next((tmp_path / "package").rglob("test_checking.py")), "2, 0.5", "3, 0.5")
    archive.seek(0)
    schemas = ["elsewhere::filter(Tensor x, int n, float p) -> Tensor"]
    check = checked(archive, report.out, report.definitions, foreign=schemas)
    assert [*outcomes(check).values()] == ["differs"]


def test_a_library_with_other_code_is_no_finding():
    methods = [MethodCheck(n, n, n) for n in ("equal", "library", "differs")]
    assert CodeCheck((*methods[:2],)).same
    assert not CodeCheck((*methods,)).same


@pytest.fixture
def calls(tmp_path):
    """The package of a module with several methods, the file that has them, and a check of it."""
    archive, report = decompiled(Calls(), tmp_path / "package")
    assert report.check is None
    (file,) = (tmp_path / "package").rglob("test_checking.py")

    def check() -> dict[str, tuple[str, str | None, str | None, str]]:
        archive.seek(0)
        return {
            method.name.rpartition(".")[2]: (
                method.outcome, method.before, method.after, method.reason,
            )
            for method in checked(archive, report.out, report.definitions).methods
        }  # fmt: skip

    return file, check


EQUAL = ("equal", None, None, "")


def test_a_method_that_differs_is_told_with_its_first_statement(calls):
    file, check = calls
    edited(file, "x * by", "x * by + 1")
    found = check()
    outcome, before, after, reason = found.pop("scaled")
    assert (outcome, reason) == ("differs", "")
    assert before != after
    assert "torch.add" in str(after)
    assert found == dict.fromkeys(("forward", "twice", "paired", "is_fast"), EQUAL)


CHANGES = [
    (Layers, "shape + self.sizes", "self.sizes + shape"),
    (Layers, "x = self.layers[1](x)", "x = self.layers[0](x)"),
    (Chain, "ValueError", "TypeError"),
    (Chain, "n == 2", "n != 2"),
    (Helpers, "total < 1000", "total <= 1000"),
    (Room, "self.limit - 1", "self.limit"),
    (Defaults, "by=3", "by=2"),
    (Values, "x: int\n    y: int", "y: int\n    x: int"),
    (Pads, "F.pad(x, (1, 1))", "F.pad(x, (1, 2))"),
    (Values, "RED = 1", "RED = 3"),
    (Values, 'pair, "é"', 'pair, "à"'),
    (Net, "nn.ReLU()", "nn.Tanh()"),
    (Net, "nn.ReLU()", "nn.ReLU(), nn.ReLU()"),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("make", "old", "new"), CHANGES)
def test_another_meaning_is_another_code(make, old, new, tmp_path):
    archive, report = decompiled(make(), tmp_path / "package")
    (file,) = (tmp_path / "package").rglob("test_checking.py")
    edited(file, old, new)
    archive.seek(0)
    check = checked(archive, report.out, report.definitions, report.operators)
    assert "differs" in outcomes(check).values()


def test_where_attributes_are_read_does_not_count(tmp_path):
    archive, report = decompiled(Layers(), tmp_path / "package")
    (file,) = (tmp_path / "package").rglob("test_checking.py")
    edited(file, "x = self.layers[0](x)", "last = self.layers[2]\n        x = self.layers[0](x)")
    edited(file, "x = self.layers[2](x)", "x = last(x)")
    archive.seek(0)
    assert checked(archive, report.out, report.definitions).same


def test_helpers_that_were_changed_do_not_stand_for_operators(tmp_path):
    archive, report = decompiled(Helpers(), tmp_path / "package")
    assert report.operators
    file = tmp_path / "package" / "_torchscript.py"
    file.write_text(file.read_text(encoding="utf-8") + "\nCHANGED = True\n", encoding="utf-8")
    archive.seek(0)
    check = checked(archive, report.out, report.definitions, report.operators)
    assert "equal" not in outcomes(check).values()


@pytest.mark.long("test_the_command_tells_what_differs")
def test_a_constant_that_differs_is_told_as_the_constant(calls):
    file, check = calls
    edited(file, "3.0", "4.0")
    assert check()["forward"] == ("differs", "3.0", "4.0", "")


@pytest.mark.long("test_the_command_tells_what_differs")
def test_what_torch_does_not_compile_leaves_the_others_to_be_compared(calls):
    file, check = calls
    edited(file, "return self.mode == ", "return [*map(id, [])] == ")
    found = check()
    outcome, before, after, reason = found.pop("is_fast")
    assert (outcome, before, after) == ("not scripted", None, None)
    assert "map(id" in reason
    assert found == dict.fromkeys(("forward", "twice", "paired", "scaled"), EQUAL)


@pytest.mark.long("test_the_command_tells_what_differs")
def test_a_signature_that_does_not_compile_is_told_of_its_method_and_of_its_callers(calls):
    file, check = calls
    edited(file, "def twice(self, x: torch.Tensor)", "def twice(self, x: 'Unknown')")
    found = check()
    assert "Unknown" in found["twice"][3]
    assert {name for name, (outcome, *_) in found.items() if outcome == "equal"} == {
        "paired", "is_fast",
    }  # fmt: skip


def test_a_helper_that_does_not_compile_is_told_of_what_calls_it(calls):
    file, check = calls
    edited(file, "return self.mode == ", "return counted(self) == ")
    helper = "\n\ndef counted(*values: object) -> int:\n    return len(values)\n"
    file.write_text(file.read_text(encoding="utf-8") + helper, encoding="utf-8")
    found = check()
    outcome, before, after, reason = found.pop("is_fast")
    assert (outcome, before, after) == ("not scripted", None, None)
    assert reason.endswith("| def counted(*values: object) -> int:")
    assert found == dict.fromkeys(("forward", "twice", "paired", "scaled"), EQUAL)


@pytest.mark.long("test_the_command_tells_what_differs")
def test_names_of_arguments_do_not_count(calls):
    file, check = calls
    edited(file, "def scaled(x: torch.Tensor, by: float", "def scaled(y: torch.Tensor, by: float")
    edited(file, "x * by", "y * by")
    assert {*check().values()} == {EQUAL}


@pytest.mark.long("test_the_command_tells_what_differs")
def test_the_package_runs_in_another_process_alone(calls):
    file, check = calls
    marker = file.with_name("ran")
    line = f"open({str(marker)!r}, 'w').close()\n"
    file.write_text(line + file.read_text(encoding="utf-8"), encoding="utf-8")
    before = {*sys.modules}
    check()
    assert marker.exists()
    assert not [name for name in {*sys.modules} - before if "package" in name]


@pytest.mark.long("test_the_command_tells_what_differs")
def test_a_package_that_fails_to_load_is_an_error(calls):
    file, check = calls
    file.write_text("raise RuntimeError('broken here')", encoding="utf-8")
    with pytest.raises(tsarchive.ArchiveError, match="broken here") as raised:
        check()
    assert raised.value.hint


def test_a_library_is_imported_before_the_package(calls, monkeypatch, tmp_path):
    archive = io.BytesIO(torch_saved(torch.jit.script(Net())))
    (tmp_path / "own_library.py").write_text(f"open({str(tmp_path / 'used')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    tsarchive.decompile(archive, tmp_path / "net", check=True, imports=["own_library"])
    assert (tmp_path / "used").exists()


def test_annotations_are_values_where_nothing_behind_them_is_named(tmp_path):
    _, report = decompiled(Attributes(), tmp_path / "package")
    assert report.definitions
    (file,) = (tmp_path / "package").rglob("test_checking.py")
    text = file.read_text(encoding="utf-8")
    assert "from __future__" not in text
    assert "table: dict[str, list[int]]" in text


def test_the_command_tells_what_differs(tmp_path):
    file, package = tmp_path / "net.pt", tmp_path / "package"
    torch.jit.save(torch.jit.script(Net()), file)
    shown = run("decompile", file, "-o", package, "--check")
    assert shown.exit_code == 0
    assert "have the code of the archive when they are scripted again" in shown.stdout
    found = document("decompile", file, "-o", package, "--check", "--force")
    assert {method["outcome"] for method in found["check"]["methods"]} == {"equal"}
    found = document("decompile", file, "-o", package, "--force")
    assert found["check"] is None


@pytest.mark.long("test_the_command_tells_what_differs")
def test_the_command_ends_with_1_where_code_does_not_come_back(tmp_path):
    archive = tmp_path / "net.pt"
    archive.write_bytes(torch_saved(torch.jit.script(Mixed())))
    shown = run("decompile", archive, "-o", tmp_path / "package", "--check")
    assert shown.exit_code == 1
    assert "are not scripted: " in shown.stdout


def test_the_command_says_each_reason_once(tmp_path, monkeypatch):
    reasons = {"a": "one", "b": "other", "c": "one"}
    check = CodeCheck(
        tuple(MethodCheck(n, n, "not scripted", reason=r) for n, r in reasons.items())
    )
    report = tsarchive.DecompileReport(str(tmp_path), "Net", (), check=check)
    monkeypatch.setattr(tsarchive, "decompile", lambda *_, **__: report)
    shown = run("decompile", ARCHIVES / "frozen.pt", "-o", tmp_path, "--check")
    assert shown.exit_code == 1
    assert "2 methods are not scripted: one\n  a\n  c\nb is not scripted: other\n" in shown.stdout


def test_the_command_checks_no_file_that_is_no_archive(tmp_path):
    (tmp_path / "text.pt").write_text("no archive")
    assert error("decompile", tmp_path / "text.pt", "-o", tmp_path / "package", "--check")
