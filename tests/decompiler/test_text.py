"""What decompiled code looks like: golden texts, comments, names, and that nothing leaks in."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import torch_saved
from tests.support.running import hand_written, method
from tsarchive.decompiler.layout import written


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.fc2 = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        x = torch.relu(self.fc1(x))
        return self.fc2(x) * scale


class Looped(nn.Module):
    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        if count < 0:
            raise ValueError("count is negative")
        for i in range(1, count, 2):
            x = x + i
            if i > 5 and count > 3:
                x = -x
        while count > 0:
            count = count - 1
            x = x * 2
        return x


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

    def forward(self, x):
        return self.body(x).mean((2, 3)) + 1.5


class Block(nn.Module):
    def __init__(self, width, depth, name):
        super().__init__()
        self.width, self.depth, self.name = width, depth, name
        self.weight = nn.Parameter(torch.ones(depth, width, 2))
        self.steps = torch.jit.Attribute([], list[int])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x * self.weight) + len(self.steps)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.small = Block(3, 4, "small")
        self.large = Block(5, 6, "large")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.small(x) + self.large(x)


def files_of(data: bytes, folder) -> dict[str, str]:
    report = tsarchive.decompile(io.BytesIO(data), folder)
    names = [file.name for file in report.files if file.name.endswith(".py")]
    return {name: (folder / name).read_text() for name in names}


def without_comments(text: str) -> str:
    """Code without comments and without docstrings of one line."""
    lines = (line for line in text.split("\n") if not line.lstrip().startswith(("#", '"""')))
    return re.sub(r":\n\n( +\S)", r":\n\1", "\n".join(lines))


def own_module(files: dict[str, str], name: str) -> str:
    (text,) = (text for text in files.values() if f"class {name}(" in text)
    return without_comments(text).partition("\n\n\n")[2]


def test_linear_network(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Small())), tmp_path / "model")
    assert own_module(files, "Small") == SMALL


def test_loops(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Looped())), tmp_path / "model")
    assert own_module(files, "Looped") == LOOPED


def test_traced_convolutions(tmp_path):
    traced = torch.jit.trace(Convolved(), torch.ones(1, 3, 5, 5))
    files = files_of(torch_saved(traced), tmp_path / "model")
    assert own_module(files, "Convolved") == CONVOLVED


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> list[int]:
        return list(x.shape) if x.dim() > 1 else list(x.shape) + list(x.shape)


def test_a_line_is_named_once_in_a_function(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Twice())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Twice" in text)
    comments = re.findall(r"# .*", text)
    assert len(comments) == len(set(comments))


def test_arguments_have_types_and_tell_shapes(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Blocks())), tmp_path / "model")
    assert own_module(files, "Blocks") == BLOCKS


def test_docstrings_name_the_original_lines(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Looped())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Looped" in text)
    original = Path(__file__).read_text().split("\n")
    number = (
        original.index("    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:") + 1
    )
    assert f'"""From test_text.py:{number}."""' in text
    assert '"""From ``tests.decompiler.test_text.Looped``."""' in text
    assert '"""Code of ``tests.decompiler.test_text``."""' in text


def test_code_that_is_as_it_was_has_no_comments(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Looped())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Looped" in text)
    lines = [line.strip() for line in text.split("\n")]
    assert not lines[lines.index("x = x * 2") - 1].startswith("#")


class Hiding(nn.Module):
    def forward(self, rows: list[list[int]], range: int, nn: int) -> int:
        for el in rows:
            el.append(1)
            if len(rows) < range + nn:
                rows.append(el)
        return len(rows)

    @torch.jit.export
    def other(self, list: list[int]) -> list[int]:
        for i in range(len(list)):
            list[i] -= 1
        return list


def test_names_are_hidden_in_their_function_alone(tmp_path):
    data = torch_saved(torch.jit.script(Hiding()))
    files = files_of(data, tmp_path / "model")
    (text,) = (text for text in files.values() if "class Hiding" in text)
    assert own_module(files, "Hiding") == HIDING
    assert re.findall("from builtins import .*", text) == ["from builtins import range as range_1"]
    assert re.findall("# test_text.py:[0-9]+(.*)", text) == [": for el in rows"]


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Ordered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return halved(doubled(x))


def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def test_definitions_are_in_the_order_of_the_original(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Ordered())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Ordered" in text)
    names = re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)
    assert names == ["doubled", "Ordered", "halved"]


class Remarked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(x, "sin")() + 1  # noqa: B009


def test_comments_leave_those_of_the_original_out(tmp_path):
    """They mean something to linters, which read them here, too."""
    files = files_of(torch_saved(torch.jit.script(Remarked())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Remarked" in text)
    assert 'return getattr(x, "sin")() + 1\n' in text
    assert "noqa" not in text


def test_the_package_says_what_it_is_made_of(tmp_path):
    archive = tmp_path / "small.pt"
    archive.write_bytes(torch_saved(torch.jit.script(Small())))
    tsarchive.decompile(archive, tmp_path / "model")
    text = (tmp_path / "model" / "__init__.py").read_text()
    with tsarchive.open(archive) as opened:
        assert opened.written_by.first in text
    assert "the TorchScript archive small.pt, written by torch" in text


class Ahead(nn.Module):
    def forward(self, x: int) -> int:
        return Linked(x).after().value


class Linked:
    def __init__(self, value: int):
        self.value = value

    def after(self) -> Linked:
        return Linked(self.value + 1)


@pytest.mark.parametrize(("module", "is_needed"), [(Looped, False), (Ahead, True)])
def test_annotations_are_strings_only_where_they_look_ahead(module, is_needed, tmp_path):
    files = files_of(torch_saved(torch.jit.script(module())), tmp_path / "model")
    (text,) = (text for text in files.values() if f"class {module.__name__}" in text)
    assert ("from __future__ import annotations" in text) is is_needed


def test_comments_show_the_original_text_where_it_differs(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Convolved())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Convolved" in text)
    told = re.findall(r"# test_text.py:(\d+): (.*)\n *(.*)", text)
    lines = Path(__file__).read_text().split("\n")
    assert told
    assert all(lines[int(number) - 1].strip() == original for number, original, _ in told)
    assert all(original != written for _, original, written in told)


class Shaped(nn.Module):
    """Its first statement calls what torch has compiled from a string."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        return x.reshape(columns, rows)


def test_builtins_are_no_place_of_the_original(tmp_path):
    files = files_of(torch_saved(torch.jit.script(Shaped())), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Shaped" in text)
    lines = Path(__file__).read_text().split("\n")
    number = lines.index("        rows, columns = x.shape")
    assert f'"""From test_text.py:{number}."""' in text
    assert "<string>" not in text


class Activated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.softplus(nn.functional.relu(x), 2)


def test_comments_of_a_trace_name_the_lines_of_the_user(tmp_path):
    traced = torch.jit.trace(Activated(), torch.ones(2))
    files = files_of(torch_saved(traced), tmp_path / "model")
    (text,) = (text for text in files.values() if "class Activated" in text)
    lines = Path(__file__).read_text().split("\n")
    number = lines.index("        return nn.functional.softplus(nn.functional.relu(x), 2)") + 1
    assert {*re.findall(r"# (.*)", text)} == {f"test_text.py:{number}"}


def test_without_debug_records_there_are_no_comments(tmp_path):
    files = files_of(hand_written(method("return x")), tmp_path / "model")
    own = [text for name, text in files.items() if not name.startswith("_")]
    assert not any("#" in text for text in own)


def test_decompiling_twice_gives_the_same_bytes(tmp_path):
    data = torch_saved(torch.jit.script(Small()))
    for name in ("one", "two"):
        tsarchive.decompile(io.BytesIO(data), tmp_path / name)
    one, two = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two")
    )
    assert one == two


def test_natives_are_told_the_types_of_elements(tmp_path):
    """A list of ints and floats makes no tensor, whatever its first item is."""
    body = "return torch.tensor([torch.len([x]), 2.5])"
    files = files_of(hand_written(method(body)), tmp_path / "model")
    assert any('element="Union[float, int]"' in text for text in files.values())


HOSTILE = "');import os;os.system('x')#\\n\"\"\"\n\\\u202e"


def test_strings_of_an_archive_stay_strings(tmp_path):
    class Speaking(nn.Module):
        def __init__(self):
            super().__init__()
            self.text = HOSTILE
            self.table = {HOSTILE: 1}

        def forward(self) -> str:
            return self.text

    files = files_of(torch_saved(torch.jit.script(Speaking())), tmp_path / "model")
    constants = {
        node.value
        for text in files.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
    }
    assert HOSTILE in constants
    assert not any("\u202e" in text for text in files.values())


@pytest.mark.parametrize("name", ["class", "torch", "len", "list", "nn", "print", "range", "None_"])
def test_names_that_mean_something_to_python(name, tmp_path):
    body = f"{name}0 = torch.len([x])\n{name}1 = torch.add(x, {name}0)\nreturn {name}1"
    files = files_of(hand_written(method(body)), tmp_path / "model")
    for text in files.values():
        compile(text, "generated", "exec")


SMALL = """\
class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.fc2 = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        x = torch.relu(self.fc1(x))
        return self.fc2(x) * scale
"""
LOOPED = """\
class Looped(nn.Module):
    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        if count < 0:
            raise ValueError("count is negative")
        for i in range(1, count, 2):
            x = x + i
            if i > 5 and count > 3:
                x = -x
        while count > 0:
            count = count - 1
            x = x * 2
        return x
"""
CONVOLVED = """\
class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(self.body(x), [2, 3]) + 1.5
"""
HIDING = """\
class Hiding(nn.Module):
    def forward(self, rows: list[list[int]], range: int, nn: int) -> int:
        for i in range_1(len(rows)):
            el = rows[i]
            el.append(1)
            if len(rows) < range + nn:
                rows.append(el)
        return len(rows)

    def other(self, list: list[int]) -> list[int]:
        for i in range(len(list)):
            list[i] -= 1
        return list
"""
BLOCKS = """\
class Block(nn.Module):
    steps: list[int]

    def __init__(self, width: int, depth: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(depth, width, 2))
        self.width = width
        self.depth = depth
        self.name = name
        self.steps = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x * self.weight) + len(self.steps)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small = Block(width=3, depth=4, name="small")
        self.large = Block(width=5, depth=6, name="large")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.small(x) + self.large(x)
"""


@pytest.mark.parametrize(
    "text",
    [
        "match value:\n    case 1:\n        pass",
        "text = f'{value!r}'",
        "with (open(a) as b, open(c)):\n    pass",
    ],
)
def test_text_is_what_was_parsed(text):
    body = ast.parse(text).body
    assert ast.dump(ast.parse(written(body))) == ast.dump(ast.parse(text))
