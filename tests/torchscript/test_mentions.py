"""Plain text gives the mentions that the parser's tree gives, in that order, or is left to it."""

from __future__ import annotations

import random
import re

import pytest

import tsarchive
from tests.support import suite
from tests.support.archives import ARCHIVES, CORPUS
from tsarchive.errors import ArchiveError
from tsarchive.formats.torchscript.inspection import _parsed
from tsarchive.formats.torchscript.mentions import PlainReader

RECORD = "code/__torch__.py"
METHOD = "class Net(Module):\n  def f(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
PLAIN = [
    "    return torch.add(torch.relu(x), ops.mine.scaled(x, 2., by=-1))\n",
    "    _0 = __torch__.a.B.__new__(__torch__.a.B)\n    return (_0).run(x, )\n",
    "    a, b, = torch.split(x, [1, 2])\n    c : List[int] = annotate(List[int], [])\n",
    '    _0 = "torch.relu( \\"\\\\"\n    return torch.format(_0, None)\n',
    "    for i in range(torch.len(x)):\n      x = torch.neg(x)\n    return x[0:2]\n",
    "    if torch.gt(x, 1e-05):\n      y = torch.neg(x)\n    else:\n      y = {0: x, 1: -x}\n"
    "    while bool(y):\n      pass\n",
    "    return __torch__.f(__torch__.g(x, ), torch.neg(__torch__.h(x, y=__torch__.i(x, ))), )\n",
    "    return torch.autograd.grad(x), torch.nn.relu(x), x.torch.relu(x)\n",
    "    return (x).relu(1 + 2 * torch.len(x)), x == x, 0 - __torch__.a.B.c\n",
]
LEFT = [
    "    if (True):\n      return torch.relu(x)\n    else:\n      return torch.neg(x)\n",
    "    if True:\n      return torch.relu(x)\n    else:\n      return torch.neg(x)\n",
    "    return (torch).relu((__torch__.a).B(x))\n",
    "    return torch .relu(__torch__.a .B)\n",
    "    return __torch__.my-model.Net\n",
    "    return torch.relu(x) if x else torch.neg(x)\n",
    '    return x."a"\n', '    return"a"\n', '    return 1."a"\n', '    return "a" torch.relu(x)\n',
    "    return x y\n", "    return f(x)(\n", "    return f(x))\n", "    f(x) = 3\n",
    "    x = f(a=1, b)\n",
    "    return x.__class__\n", "    x = class\n", "    x.return = 3\n", "    return = 3\n",
    "    return 012\n", "    return 1or 2\n", "    return 1_0\n", "    return (a=1)\n",
    "    return x\n      return x\n", "   return x\n", "    if x:\n    return x\n",
    "    else:\n      pass\n",
    "    if x:\n      pass\n    y = 1\n    else:\n      pass\n", "    for i in x:\n      pass\n",
    "    while x:\n      pass\n    else:\n      pass\n", "    return f'a'\n",
    "    return x # torch.f(\n",
    "    x = ø\n", "    return [x for x in y]\n", "    return f(*x)\n", "    return lambda: x\n",
    "  def g(self, y: int=torch.f(torch.g(1)), z: int) -> __torch__.A:\n    return y\n",
    "  def g(self: A, y: int=x[1:__torch__.a], z: __torch__.A=x) -> int:\n    return y\n",
    "  return x\n", "    class A:\n      pass\n", "    def f(x: int) -> int:\n      return x\n",
    "    return x\nx = 1\n", f"    return {'-' * 3}x\n", f"    return {'(' * 40}x{')' * 40}\n",
    f"    return {'.'.join('x' * 1500)}\n",
]  # fmt: skip


def of_tree(text):
    return {name: listed(found) for name, found in _parsed(RECORD, text).definitions.items()}


def of_text(text, reader=None):
    found = (reader or PlainReader()).mentions(text)
    return None if found is None else {name: listed(own) for name, own in found.items()}


def listed(mentions):
    return [*mentions.operators.items()], [*mentions.names]


@pytest.mark.whole
@pytest.mark.parametrize("body", PLAIN)
def test_plain_text_needs_no_parser(body):
    assert of_text(METHOD + body) == of_tree(METHOD + body)


@pytest.mark.whole
@pytest.mark.parametrize("body", LEFT)
def test_other_text_is_left_to_the_parser(body):
    assert of_text(METHOD + "    pass\n") is not None
    assert of_text(METHOD + body) is None


def test_definitions_of_one_name_are_left_to_the_parser():
    assert of_text("def f(x: int) -> int:\n  return torch.g(x)\n" * 2) is None


def codes():
    """The texts of archives, each once."""
    paths = [*sorted(ARCHIVES.glob("*.pt")), *sorted((CORPUS / "torchscript").glob("*"))]
    texts: dict[str, None] = {}
    for path in suite.sampled(paths, 60):
        try:
            with tsarchive.open(path) as archive:
                texts |= dict.fromkeys(archive.code.values())
        except ArchiveError:
            continue
    return texts


def test_code_of_real_archives_gives_the_same_either_way():
    reader = PlainReader()
    found = {text: of_text(text, reader) for text in codes()}
    plain = {text: mentions for text, mentions in found.items() if mentions is not None}
    assert len(plain) > len(found) * 3 // 4
    assert [text for text, mentions in plain.items() if mentions != of_tree(text)] == []


PIECES = [
    *"()[]{},:=-.*+'\"#;@!x1", ", ", " ", "\n", "\n  ", "\n    ", "torch", ".relu", "torch.relu(",
    "__torch__.a.B", "None", "if True:", "(True)", "else:", "return", "pass", "not ", " and ", "1e",
    "1.", '"a"', "class A(Module):", "def f(x: int) -> int:", "for i in range(3):", "while x:",
    "x[1:2]", "(torch)", "->", "**", ".__class__", "==", "a, b = ", "(a=1)", "{}", "[]", "()",
]  # fmt: skip


def changed(text, chance):
    """The text with a token or two left out, doubled, or others in their place."""
    tokens = re.findall(r'"[^"]*"|\w+|\n *|.', text)
    for _ in range(chance.choice([1, 1, 2])):
        place = chance.randrange(len(tokens))
        tokens[place : place + chance.choice([0, 1])] = chance.choice([[], [chance.choice(PIECES)]])
    return "".join(tokens)


def test_damaged_text_is_never_taken_for_other_text():
    chance, reader, taken = random.Random(1), PlainReader(), 0
    texts = [text for text in codes() if len(text) < 3000 and reader.mentions(text) is not None]
    for _ in range(suite.examples(4_000)):
        text = changed(chance.choice(texts), chance)
        found = of_text(text, reader)
        if found is not None:
            taken += 1
            assert found == of_tree(text), text
    assert taken > 5
