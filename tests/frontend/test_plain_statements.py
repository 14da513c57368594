"""Plain statements: read without the parser they give the graph that the parser's tree gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.archives import ARCHIVES, CORPUS
from tests.support.frontend import OpenedArchive, described, importer_of
from tsarchive.errors import ArchiveError
from tsarchive.frontend.importer import FunctionReader
from tsarchive.frontend.plain import plain_text
from tsarchive.ir.classes import Function

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FIXTURES = [path for path in sorted(ARCHIVES.glob("*.pt")) if not path.name.endswith(".io.pt")]
REAL = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []
HEADER = """\
def g(a: Tensor, b: Optional[int]=None) -> Tensor:
  return torch.neg(a)
def h(a: Tensor) -> Tuple[Tensor, int]:
  _0 = (torch.neg(a), 1)
  return _0
class N(NamedTuple):
  first : Tensor
  second : int
class S(Module):
  __parameters__ = []
  __buffers__ = []
  w : Tensor
  k : Final[int] = 3
  def forward(self: __torch__.S,
    a: Tensor) -> Tensor:
    return torch.mul(a, self.w)
class M(Module):
  __parameters__ = []
  __buffers__ = []
  w : Tensor
  sub : __torch__.S
  __annotations__["0"] = __torch__.S
"""


def method(body: str, result: str = "Tensor") -> str:
    """A record whose class ``M`` has the method ``f`` with such statements."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    parameters = "x: Tensor,\n    n: int,\n    flag: bool,\n    xs: List[int],\n    t: N,\n    "
    parameters = parameters.replace("N", "__torch__.N")
    head = f"  def f(self: __torch__.M,\n    {parameters}s: str) -> {result}:\n"
    return f"{HEADER}{head}{lines}"


def outcome(reader: FunctionReader, *, is_plain: bool) -> list | tuple:
    with pytest.MonkeyPatch.context() as patched:
        if not is_plain:
            patched.setattr(FunctionReader, "_plain_graph", lambda self: None)
        try:
            return described(reader.graph())
        except ArchiveError as error:
            return str(error), error.line, error.construct, error.record


def check(function: Function) -> None:
    reader = function._define.__self__
    assert outcome(reader, is_plain=True) == outcome(reader, is_plain=False)


def method_of(text: str) -> Function:
    return importer_of(text).find("__torch__.M").methods["f"]


def is_read_plain(text: str) -> bool:
    """Whether no part of the text takes the long way."""
    return method_of(text)._define.__self__._plain_graph() is not None


def check_archive(path) -> None:
    try:
        functions = OpenedArchive(path).functions()
    except ArchiveError as error:
        pytest.skip(f"its code is not read: {error}")
    for function in functions.values():
        if hasattr(function._define, "__self__"):
            check(function)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_fixtures(path):
    check_archive(path)


@pytest.mark.sample(4)
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_archives(path):
    check_archive(path)


PLAIN = [
    "return x",
    "return torch.add(x, x, alpha=2)",
    "_0 = torch.add(torch.mul(x, self.w), CONSTANTS.c0)\nreturn torch.relu(_0)",
    "a = torch.conv2d(x, x, None, [2, 2], [1, 1], [1, 1], 1)\nreturn a",
    "a = CONSTANTS.c0\nb = CONSTANTS.c0\nreturn torch.add(a, b)",
    "a, b, = torch.chunk(x, 2, 1)\nreturn torch.add(a, b)",
    "a, b = torch.max(x, 0)\nreturn a",
    "a, b = x, 1\nreturn torch.add(a, b)",
    "a, b = (x, 1)\nreturn torch.add(a, b)",
    "a, b = ((x, torch.neg(x)))\nreturn torch.add(a, b)",
    "a = getattr(self, \"0\")\nreturn (a).forward(x, )",
    "return (getattr(self, \"0\")).forward((self.sub).forward(x, ), )",
    "a = self.sub\nreturn torch.add((a).forward(x, ), a.w)",
    "a = __torch__.g\nreturn a(x, None, )",
    "a = __torch__.h\nb = (a(x, ))[0]\nreturn b",
    "return __torch__.g(x, b=1)",
    "a = xs[0]\nb = (xs)[-1]\nreturn torch.add(x, torch.add(a, b))",
    "return x[0]",
    "a = t.first\nreturn torch.add(a, t.second)",
    "a = (t)[0]\nreturn a",
    "a = int(torch.len(xs))\nb = float(a)\nreturn torch.mul(x, b)",
    "a = [1, -2]\nb = [n, 1]\nc = []\nd = torch.append(c, x)\nreturn torch.reshape(x, a)",
    "a = torch.cat([x, x], 0)\nb = torch.cat([])\nreturn a",
    "a = torch.zeros([], dtype=6, layout=None, device=torch.device(\"cpu\"))\nreturn a",
    "a = (x, 1, \"a (b, c)\")\nb = (1, 2.)\nreturn (a)[0]",
    "ops.prim.RaiseException(\"AssertionError: \", \"builtins.ValueError\")\nreturn x",
    "a = torch.slice(x, 0, 0, 9223372036854775807, 1)\nreturn a",
    "a = 1.0000000000000001e-05\nb = -0.\nreturn torch.add(torch.mul(x, a), b)",
    "a = torch.masked_fill(x, x, inf)\nreturn a",
    "x = torch.neg(x)\nx = torch.neg(x)\nreturn x",
    "a = torch.add(1, 2)\nb = torch.mul(a, n)\nreturn torch.add(x, b)",
    "a = torch.format(\"{} {}\", n, s)\nb = torch.len(a)\nreturn torch.add(x, b)",
    "if flag:\n  a = torch.neg(x)\n  b = a\nelse:\n  a = x\n  b = x\nreturn torch.add(a, b)",
    "for i in range(n):\n  x = torch.add(x, i)\n  x = torch.neg(x)\nreturn x",
    "a = x\nwhile flag:\n  a = torch.neg(a)\n  flag = False\nreturn a",
    "a = annotate(Optional[int], None)\nb = torch.neg(x)\nc = unchecked_cast(int, a)\nreturn b",
    "if False:\n  a = torch.neg(x)\nelse:\n  a = torch.abs(x)\nreturn a",
    "b = torch.neg(x)\na = not flag\nreturn torch.add(b, x)",
    "b = torch.zeros(1, 2)\nreturn b",
    "if torch.gt(n, 1):\n  a = x\nelse:\n  a = torch.neg(x)\nreturn a",
    "if torch.any(x):\n  a = x\nelse:\n  a = torch.neg(x)\nreturn a",
    "if torch.is_scripting():\n  a = x\nelse:\n  a = torch.neg(x)\nreturn a",
    "a = torch.__is__(None, None)\nif a:\n  b = x\nelse:\n  b = torch.neg(x)\nreturn b",
]  # fmt: skip
LEFT = [
    "a, b = (torch.neg)(x), x\nreturn a",
    "a = torch.no_such(x)\nreturn a",
    "a = torch.neg(y)\nreturn a",
    "a = torch.neg(x, x, x)\nreturn a",
    "a = torch.neg(x\nreturn a",
    "a = torch.neg(x))\nreturn a",
    "a = torch.neg((x]\nreturn a",
    "a = torch.neg(x x)\nreturn a",
    "a = torch.neg(, x)\nreturn a",
    "a = torch.neg(x)(x)\nreturn a",
    "a = torch.add(x, alpha=1, x)\nreturn a",
    "a = torch.add(x, x, alpha=1, alpha=1)\nreturn a",
    "a = torch.neg(x).grad\nreturn a",
    "torch = x\nreturn torch.neg(x)",
    "lambda = torch.neg(x)\nreturn x",
    "a = torch.lambda(x)\nreturn x",
    "a = self.__class__\nreturn x",
    "a = getattr(self, \"__class__\")\nreturn x",
    "a = getattr(self, \"absent\")\nreturn x",
    "a = self.absent\nreturn x",
    "a, b = x, x, x\nreturn a",
    "a = x, x\nreturn x",
    "a = torch.neg(99999999999999999999)\nreturn a",
    "a = torch.add(x, 1.2.3)\nreturn x",
    "a = torch.add(x, 007)\nreturn x",
    "a = torch.add(torch.max(x, 0), x)\nreturn a",
    "a = CONSTANTS.c99\nreturn a",
    "a = CONSTANTS.d\nreturn a",
    "if False:\n  a = torch.neg(x\n  b = x\nelse:\n  a = x\nreturn x",
    "if False:\n  a = torch..neg(x)\nelse:\n  a = x\nreturn x",
    "return x\na = x\nreturn a",
    "a = x\n  b = x\nreturn a",
    "if flag:\na = x\nreturn a",
    "if ():\n  a = x\nelse:\n  a = x\nreturn a",
    "if s:\n  a = x\nelse:\n  a = x\nreturn a",
    "if x,:\n  a = x\nreturn x",
    "if n, n:\n  a = x\nreturn x",
    "if self.sub:\n  a = x\nreturn x",
    "if torch.max(x, 0):\n  a = x\nreturn x",
    "if False:\n  if torch.neg(x:\n    a = x\nreturn x",
    "if False:\n  if torch.neg(x):\n    a = x\nreturn x",
    "a = torch.neg(x)\nreturn n",
    "a = foo(\n    b = 3\n    )\nreturn x",
    "a = \"\"\"\n    b = x\n    \"\"\"\nreturn x",
    "if flag:\n  a = x\n  b = 1\nelse:\n  a = n\nreturn torch.add(a, b)",
    "with torch.no_grad():\n  a = x\nreturn a",
    "return",
    "x == x\nreturn x",
    "(x == y)\nreturn x",
    "(x == x)\nreturn x",
    "a = -n\nb = x-1\nreturn x",
    "a = x if flag else x\nreturn a",
    "a = torch.neg(*x)\nreturn a",
    f"a = torch.neg({'(' * 300}x{')' * 300})\nreturn a",
    f"a = {'x, ' * 1_000}x\nreturn x",
    f"{'a' * 5_000} = x\nreturn x",
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("body", [*PLAIN, *LEFT], ids=lambda body: body[:60])
def test_both_ways_give_the_same(body):
    check(method_of(method(body)))


@pytest.mark.whole
@pytest.mark.parametrize("body", PLAIN, ids=lambda body: body[:60])
def test_plain_statements_are_read_without_their_tree(body):
    assert is_read_plain(method(body))


def test_statements_alone_are_not_parsed(monkeypatch):
    monkeypatch.setattr("tsarchive.frontend.splitting.parse_statements", None)
    assert is_read_plain(method("a = torch.neg(x)\nb, c = a, a\nreturn torch.add(b, c)"))


def test_the_rest_ends_where_the_lines_do():
    text = "def f(x: Tensor) -> Tensor:\n  if x:\n    a = x\n    bc = x\n  return not x\n"
    found = plain_text(text, 7)
    assert found is not None
    assert [*found.runs] == [9]
    assert found.rest.count("\n") == text.count("\n")
    assert [*map(len, found.rest.split("\n"))][3] == len("    bc = x")


@pytest.mark.parametrize(
    "line",
    [
        "x = " + "(" * 1_000_000,
        'x = "' + '\\"' * 1_000_000,
        "x = '" + "(['" * 1_000_000,
        "x = " + '"a", ' * 1_000_000 + "!",
        "x, " * 1_000_000 + "!",
        "x" * 3_000_000 + " !",
        "x = " + "x(-1, " * 500_000 + "!",
        "x = 1\n  " * 300_000 + "!",
    ],
    ids=lambda line: line[:12],
)
def test_text_that_is_not_plain_is_given_up_soon(line):
    # Quadratic time would be hours.
    plain_text(f"def f(x: Tensor) -> Tensor:\n  {line}\n", 1)


VALUES = st.sampled_from(
    ["x", "n", "flag", "xs", "t", "s", "a", "b", "self.w", "self.sub", "t.first", "CONSTANTS.c1",
     "None", "True", "1", "-2", "0.5", "\"a, (b\"", "[1, 2]", "[0]", "[]", "xs[0]", "inf",
     "getattr(self, \"0\")", "__torch__.g", "y", "()", "torch.len()", "self.sub.forward()"]
)  # fmt: skip
CALLEES = st.sampled_from(
    ["torch.add", "torch.neg", "torch.mul", "torch.cat", "torch.max", "torch.size", "torch.len",
     "torch.append", "ops.aten.relu", "ops.prim.dtype", "__torch__.g", "__torch__.h", "int", "len",
     "(self.sub).forward", "__torch__.N", "a", "torch.split", "x.add"]
)  # fmt: skip


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(
        st.builds(lambda f, given: f"{f}({', '.join(given)})", CALLEES, several),
        st.builds(lambda f, given: f"{f}({', '.join(given)}, )", CALLEES, several),
        st.builds(lambda f, one, two: f"{f}({one}, alpha={two})", CALLEES, inner, inner),
        st.builds(lambda given: f"[{', '.join(given)}]", several),
        st.builds(lambda given: f"({', '.join(given)})", several),
        st.builds(lambda one, place: f"({one})[{place}]", inner, st.integers(-3, 3)),
    )


EXPRESSIONS = st.one_of(VALUES, compound(st.one_of(VALUES, compound(VALUES))))
TARGETS = st.sampled_from(["a = ", "b = ", "_0 = ", "a, b = ", "a, b, = ", "x = ", "", "torch = "])
LINES = st.lists(st.builds(str.__add__, TARGETS, EXPRESSIONS), max_size=5)
BODIES = st.builds(
    lambda lines, inner: "\n".join([*lines, *inner]),
    LINES,
    LINES.flatmap(
        lambda lines: st.sampled_from(
            [
                [],
                [f"{head}\n" + "\n".join(f"  {line}" for line in lines or ["pass"])
                 for head in ("if flag:",)],
                [f"if {line}:\n  b = x" for line in lines[:1]],
                ["for i in range(n):\n" + "\n".join(f"  {line}" for line in lines or ["pass"])],
                ["if False:\n" + "\n".join(f"  {line}" for line in lines or ["pass"])],
            ]
        )
    ),
)  # fmt: skip


@given(BODIES, EXPRESSIONS)
def test_any_statements_give_the_same_both_ways(body, result):
    check(method_of(method(f"{body}\nreturn {result}")))


SIGNS = st.sampled_from(
    ["(", ")", "[", "]", ", ", ",", " = ", "=", "-", ".", " ", "x", "n", "torch.neg(", "torch.add(",
     ".forward(", "1", "0.5", "\"a\"", "self", "alpha=", "[0]", "not ", "e", "1e-05", "\n    "]
)  # fmt: skip


@given(st.lists(SIGNS, max_size=14).map("".join))
def test_any_signs_give_the_same_both_ways(line):
    check(method_of(method(f"a = {line}\nreturn torch.neg(x)")))
