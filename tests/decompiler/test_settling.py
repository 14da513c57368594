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
    pytest.param(
        "a = torch.jit.annotate(Dict[str, int], {})\nm = n + 1\na['x'] = m\nreturn a",
        "m = n + 1\na = torch.jit.annotate(Dict[str, int], {})\na['x'] = m\nreturn a",
        id="where a dict is made",
    ),
    pytest.param(
        "i = x[0]\nj = x[1]\na = int(i)\nb = float(j)\nreturn a, b",
        "i = x[0]\nj = x[1]\nb = float(j)\na = int(i)\nreturn a, b",
        id="where tensors become numbers",
    ),
    pytest.param(
        "return torch.tensor(v)", "return torch.tensor(v, dtype=torch.int64)", id="dtype of ints"
    ),
    pytest.param(
        "p = [0]\nreturn torch.conv1d(x, x, None, [1], p)",
        "return torch.conv1d(x, x, None, [1])",
        id="default of an operator",
    ),
    pytest.param(
        "return list(torch.chunk(x, 2))", "return torch.chunk(x, 2)", id="copy of a new list"
    ),
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
    pytest.param(
        "i = x[0]\na = int(i)\ni.add_(1)\nreturn a",
        "i = x[0]\ni.add_(1)\na = int(i)\nreturn a",
        id="number before a write",
    ),
    pytest.param(
        "p = [1]\nq = p\nq.append(n)\nreturn p",
        "p = [1]\nq = [1]\nq.append(n)\nreturn p",
        id="one list",
    ),
    pytest.param(
        "p = torch.jit.annotate(List[int], [])\nfor i in range(n):\n  p.append(i)\nreturn p",
        "p = [0]\nfor i in range(n):\n  p = torch.jit.annotate(List[int], [])\n  p.append(i)\n"
        "return p",
        id="list in a loop",
    ),
    pytest.param(
        "y = torch.chunk(x, 2)\nz = list(y)\nz.append(x)\nreturn y, z",
        "y = torch.chunk(x, 2)\ny.append(x)\nreturn y, y",
        id="copy of a list that is used",
    ),
    pytest.param(
        "if n > 3:\n  raise ValueError('a')\nelse:\n  p = [1, 2]\np.append(n)\nreturn p",
        "if n > 3:\n  raise ValueError('a')\nelse:\n  p = [3, 2]\np.append(n)\nreturn p",
        id="list of constants behind a raise",
    ),
    pytest.param(
        "p = [1, 2]\nm = 0\nfor i in range(n):\n  m += p.pop()\nreturn m",
        "m = 0\nfor i in range(n):\n  p = [1, 2]\n  m += p.pop()\nreturn m",
        id="list of constants in a loop",
    ),
    pytest.param(
        "y = torch.chunk(x, 2)\nfor i in range(n):\n  z = list(y)\n  z.append(x)\n  n += len(z)\n"
        "return n",
        "y = torch.chunk(x, 2)\nfor i in range(n):\n  y.append(x)\n  n += len(y)\nreturn n",
        id="copies in a loop",
    ),
    pytest.param(
        "t = torch.tensor(n)\nu = t.to(torch.int64)\nu.add_(1)\nreturn int(t), u",
        "t = torch.tensor(n)\nu = t.to(torch.int64)\nu.add_(1)\nreturn n, u",
        id="write to what may be the tensor itself",
    ),
    pytest.param("return x[:, :][0]", "return x[0]", id="all columns before a row"),
    pytest.param(
        "return torch.ops.aten.slice(x, -3)[0]", "return x[0]", id="dimension from the end"
    ),
    pytest.param(
        "y = x[:]\nx.t_()\nreturn y[0]", "x.t_()\nreturn x[0]", id="rows before they are columns"
    ),
    pytest.param(
        "y = x[:]\nfor i in range(n):\n  x.t_()\nreturn y[0]",
        "for i in range(n):\n  x.t_()\nreturn x[0]",
        id="rows before a loop",
    ),
    pytest.param("return torch.tensor(v)", "return torch.tensor(v, dtype=torch.int32)", id="dtype"),
    pytest.param(
        "return torch.conv1d(x, x, None, [1], [1])",
        "return torch.conv1d(x, x, None, [1])",
        id="no default of an operator",
    ),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_means_something_else_stays_apart(one, other):
    assert changes(one, other)
