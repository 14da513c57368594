"""What is decided while code is read, held against what torch makes of the same text."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.archives import records_of, torch_loaded, torch_saved
from tests.support.frontend import graph_of, kinds
from tests.support.running import check_same, hand_written, method
from tsarchive.container import Container
from tsarchive.formats.torchscript.reprinting import Reprinter

CHOICE = "\n  y = torch.neg(x)\nelse:\n  y = x\nreturn y"
BODIES = {
    "a constant": f"_0 = True\nif _0:{CHOICE}",
    "a check of a known type": f"_0 = isinstance(x, Tensor)\nif _0:{CHOICE}",
    "a check that never holds": f"_0 = isinstance(x, int)\nif _0:{CHOICE}",
    "not, of a literal": f"_0 = torch.__not__(False)\nif _0:{CHOICE}",
    "not, of a constant": f"_0 = False\nif torch.__not__(_0):{CHOICE}",
    "bool of a number": f"_1 = 5\nif bool(_1):{CHOICE}",
    "none is none": f"_0 = torch.__is__(None, None)\nif _0:{CHOICE}",
    "a cast that stays": (
        "_0 = isinstance(x, Tensor)\nif _0:\n  y = unchecked_cast(Tensor, x)\n  _1 = y\n"
        "else:\n  _1 = x\nreturn _1"
    ),
    "a check as condition": (
        "y = x\nif isinstance(y, Tensor):\n  z = torch.neg(y)\nelse:\n  z = y\nreturn torch.abs(z)"
    ),
    "a name that stays": (
        "_0 = True\nif _0:\n  y = torch.neg(x)\nelse:\n  y = x\nreturn torch.abs(y)"
    ),
    "one after the other": (
        "_0 = True\nif _0:\n  y = 1\nelse:\n  y = 2\n"
        "if torch.eq(y, 1):\n  z = torch.neg(x)\nelse:\n  z = x\nreturn z"
    ),
    "inside another": (
        "if bool(x):\n  _0 = False\n  if _0:\n    y = torch.neg(x)\n  else:\n    y = torch.abs(x)\n"
        "else:\n  y = x\nreturn y"
    ),
    "inside a loop": (
        "y = x\nz = x\nfor i in range(3):\n  _0 = False\n  if _0:\n    z = torch.neg(z)\n"
        "  else:\n    z = z\n  y = torch.add(y, z)\nreturn y"
    ),
    "what only the other branch needs": (
        "w = torch.abs(x)\nv = torch.neg(w)\n_0 = True\nif _0:\n  y = x\nelse:\n  y = v\nreturn y"
    ),
    "a list that only the other branch takes apart": (
        "_0 = torch.chunk(x, 2)\nw, v, = _0\n_1 = True\nif _1:\n  y = x\nelse:\n"
        "  y = torch.add(w, v)\nreturn y"
    ),
    "a question with effects that only the other branch needs": (
        "_0 = torch.is_grad_enabled()\n_1 = True\nif _1:\n  y = x\nelse:\n"
        "  y = torch.mul(x, int(_0))\nreturn y"
    ),
    "normalization that only the other branch needs": (
        "_0 = torch.batch_norm(x, None, None, x, x, False, 0.1, 0.1, False)\n_1 = True\nif _1:\n"
        "  y = x\nelse:\n  y = _0\nreturn y"
    ),
    "normalization in training that only the other branch needs": (
        "_0 = torch.batch_norm(x, None, None, x, x, True, 0.1, 0.1, False)\n_1 = True\nif _1:\n"
        "  y = x\nelse:\n  y = _0\nreturn y"
    ),
    "an operator of others that only the other branch needs": (
        "_0 = ops.quantized.relu6(x)\n_1 = True\nif _1:\n  y = x\nelse:\n  y = _0\nreturn y"
    ),
    "an effect that stays": (
        "l = [x]\n_0 = torch.append(l, x)\n_1 = False\nif _1:\n  y = l\nelse:\n  y = [x]\n"
        "_2 = torch.append(l, x)\nreturn torch.add(y[0], l[0])"
    ),
    "equal branches": "if bool(x):\n  y = 1\nelse:\n  y = 1\nreturn torch.add(x, y)",
    "branches without a choice": (
        "if bool(x):\n  y = 1\n  z = x\nelse:\n  y = 1\n  z = x\nreturn torch.add(z, y)"
    ),
    "a loop that never runs": "y = x\nfor i in range(0):\n  y = torch.neg(y)\nreturn y",
    "a condition that never holds": (
        "y = x\n_0 = False\nwhile _0:\n  y = torch.neg(y)\n  _0 = bool(y)\nreturn y"
    ),
    "carried without change": (
        "y = x\nz = x\nfor i in range(3):\n  y = torch.neg(y)\n  z = z\nreturn torch.add(y, z)"
    ),
    "a sum": "_1 = torch.add(2, 3)\nreturn torch.add(x, _1)",
    "a quotient": "_0 = torch.div(1, 0)\nreturn torch.add(x, _0)",
    "a conversion": "_0 = int(2.5)\nreturn torch.add(x, _0)",
    "a cast": "_0 = unchecked_cast(int, 3)\nreturn torch.add(x, _0)",
    "several results": "_0, _1 = torch.divmod(7, 2)\nreturn torch.add(x, torch.add(_0, _1))",
    "what raises": "_0 = torch.floordiv(1, 0)\nreturn torch.add(x, _0)",
    "a list": "_1 = [1, 2]\n_2 = torch.len(_1)\nreturn torch.add(x, _2)",
    "a text with parts": '_0 = torch.format("{}", 1)\nprint(_0)\nreturn x',
    "a new tensor": "_0 = torch.tensor(1)\nreturn torch.add(x, _0)",
}


def code_of(data: bytes) -> list[str]:
    return [text.decode() for name, text in records_of(data).items() if name.endswith(".py")]


def method_of(text: str) -> str:
    return text[text.index("  def forward") :]


@pytest.mark.parametrize("name", BODIES)
def test_torch_decides_the_same(name):
    data = hand_written(method(BODIES[name]))
    with Container.open(io.BytesIO(data)) as container:
        printed = Reprinter(container, None).once()
    assert not printed.failures
    (expected,) = code_of(torch_saved(torch_loaded(data)))
    (found,) = (str(body) for body in printed.bodies.values())
    assert method_of(found) == method_of(expected)


@pytest.mark.parametrize("name", BODIES)
def test_it_runs_the_same(name):
    data = hand_written(method(BODIES[name]))
    theirs = torch_loaded(data)
    check_same(theirs, tsarchive.load(io.BytesIO(data)), torch.ones(()))


def test_a_closure_is_folded():
    text = (
        "def f(x: Tensor) -> Tensor:\n  def __forked_function():\n    _0 = True\n    if _0:\n"
        "      y = torch.neg(x)\n    else:\n      y = x\n    return y\n"
        "  _1 = fork(__forked_function)\n  return torch.wait(_1)\n"
    )
    (fork,) = [node for node in graph_of(text).nodes if node.kind == "prim::fork"]
    assert [n.kind for n in fork.attributes["subgraph"].nodes if not n.is_constant] == ["aten::neg"]
    assert "prim::If" not in kinds(graph_of(text))
