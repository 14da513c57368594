"""Code that means the same, whatever it looks like, is the same once it is settled."""

import io

import pytest
import torch

from tests.support.archives import torch_saved
from tsarchive.decompiler.settling import settled
from tsarchive.diffing.definitions import routine_changes
from tsarchive.fingerprinting import readable_contents
from tsarchive.formats.contents import Routine


def routine_of(body: str) -> Routine:
    """The routine of a method with these lines, of a number, a tensor and a list of numbers."""
    module = type("Net", (torch.jit.ScriptModule,), {})()
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    module.define(f"def forward(self, n: int, x: Tensor, v: List[int]):\n{lines}")
    with readable_contents(io.BytesIO(torch_saved(module))) as found:
        (routine,) = found.contents.outline.modules[""].definition.routines.values()
        return routine


def changes(one: str, other: str) -> list[object]:
    before, after = (settled(routine_of(body), ()) for body in (one, other))
    return [*routine_changes("forward", before, after)]


CHECKED = "if n > 3:\n  raise ValueError('a')\nreturn n + 1"
ALIKE = [
    pytest.param(
        "assert n <= 3, 'a'\nreturn n + 1", "assert not n > 3, 'a'\nreturn n + 1", id="not"
    ),
    pytest.param(
        CHECKED,
        "if n > 3:\n  raise ValueError('a')\nelse:\n  m = n + 1\nreturn m",
        id="behind a raise",
    ),
    pytest.param(
        "if n != 3:\n  y = x + 1\nelse:\n  y = x - 1\nreturn y",
        "if n == 3:\n  y = x - 1\nelse:\n  y = x + 1\nreturn y",
        id="other way round",
    ),
    pytest.param("b = True if n > 3 else False\nreturn b", "return n > 3", id="condition"),
    pytest.param("return x[:, 1:n]", "return torch.ops.aten.slice(x, 1, 1, n, 1)", id="all rows"),
    pytest.param("return x[0:n]", "return x[:n]", id="first row"),
    pytest.param("return v[x[0]]", "return v[int(x[0])]", id="int of a tensor"),
    pytest.param("return int(torch.tensor(n)) + 1", "return n + 1", id="int in a tensor"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_means_the_same_is_the_same(one, other):
    assert changes(one, other) == []


APART = [
    pytest.param(CHECKED, "if n >= 3:\n  raise ValueError('a')\nreturn n + 1", id="condition"),
    pytest.param(CHECKED, "if n > 3:\n  raise ValueError('b')\nreturn n + 1", id="message"),
    pytest.param(
        CHECKED, "m = n + 1\nif n > 3:\n  raise ValueError('a')\nreturn n + m", id="result"
    ),
    pytest.param(
        "if n != 3:\n  y = x + 1\nelse:\n  y = x - 1\nreturn y",
        "if n == 3:\n  y = x + 1\nelse:\n  y = x - 1\nreturn y",
        id="branches",
    ),
    pytest.param("b = False if n > 3 else True\nreturn b", "return n > 3", id="opposite"),
    pytest.param("return x[:, 1:n]", "return x[1:n]", id="rows"),
    pytest.param("return x[1:n]", "return x[:n]", id="second row"),
    pytest.param(
        "y = v.copy()\ny.append(n)\nreturn v, y", "y = v\ny.append(n)\nreturn v, y", id="copy"
    ),
    pytest.param(
        "t = torch.tensor(n)\nt.add_(1)\nreturn int(t)", "t = torch.tensor(n)\nreturn n", id="write"
    ),
    pytest.param(
        "if n > 3:\n  y = [n]\nelse:\n  raise ValueError('a')\ny.append(1)\nreturn y",
        "if n > 3:\n  pass\nelse:\n  raise ValueError('a')\n[n].append(1)\nreturn [n]",
        id="list behind a raise",
    ),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_means_something_else_stays_apart(one, other):
    assert changes(one, other)
