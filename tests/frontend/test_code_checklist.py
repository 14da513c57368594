"""The checklist for code: each row a test, at both sides of each boundary.

What operators code may reach is in the tests of the policy, what it may cost in those of limits.
"""

from __future__ import annotations

import ast
import io

import pytest
import torch

import tsarchive
from tests.support.frontend import (
    RECORD,
    function_of,
    graph_of,
    importer_of,
    method_text,
    only,
    torch_functions_of,
)
from tests.support.running import hand_written, method
from tsarchive.errors import ArchiveError, ScriptError, SourceError
from tsarchive.formats.torchscript.inspection import needs_of_all
from tsarchive.frontend import grammar, lowering
from tsarchive.frontend.splitting import check_code, statements_of
from tsarchive.ir.text_limits import MAX_DEFINITIONS, MAX_DEPTH, MAX_NAME, MAX_NUMBER
from tsarchive.ir.type_parser import MAX_UNION, parse_type
from tsarchive.policy import Policy
from tsarchive.run.classes import Classes
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.table import MAX_BYTES, MAX_ITEMS


def body(statements: str) -> str:
    lines = "".join(f"  {line}\n" for line in statements.splitlines())
    return f"def f(x: Tensor, i: int) -> Tensor:\n{lines}  return x\n"


def compiled(text: str):
    return Classes().compiler.function(function_of(text)).compile()


# Constructs of Python that no writer of archives prints, by what the error calls them.
FORBIDDEN = {
    "import os\n": "Import",
    "import __torch__.a as os\n": "Import",
    "from os import system\n": "ImportFrom",
    "x = 1\n": "Assign outside",
    "print(1)\n": "Expr outside",
    "@g\ndef f(x):\n  return x\n": "decorator_list",
    "@g\nclass C:\n  x : int\n": "decorator_list",
    "class C(metaclass=M):\n  x : int\n": "ClassDef with keywords",
    "class C(__torch__.D):\n  x : int\n": "Attribute in the bases",
    "class C(f()):\n  x : int\n": "Call in the bases",
    "class C:\n  print(1)\n": "Expr in the body of ClassDef",
    "class C:\n  if x:\n    y : int\n": "If in the body of ClassDef",
    "class C:\n  class D:\n    y : int\n": "ClassDef in the body of ClassDef",
    "class C:\n  for i in range(3):\n    pass\n": "For in the body of ClassDef",
    "async def f(x):\n  return x\n": "Async",
    "def f(*x):\n  return x\n": "vararg",
    "def f(**x):\n  return x\n": "kwarg",
    "def f(x, *, y):\n  return x\n": "kwonlyargs",
    "def f(x, /):\n  return x\n": "posonlyargs",
    "def f(x: g()) -> int:\n  return 1\n": "Call in the annotation",
    "def f(x) -> g():\n  return 1\n": "Call in the returns",
    "def f(x: [int]):\n  return x\n": "List in the annotation",
    "def f(x: int=[n for n in x]):\n  return x\n": "ListComp",
    "def f(x: int=(lambda: 1)):\n  return x\n": "Lambda",
    body("import os"): "Import",
    body("y = lambda: x"): "Lambda",
    body("y = [n for n in x]"): "ListComp",
    body("y = {n for n in x}"): "SetComp",
    body("y = {n: n for n in x}"): "DictComp",
    body("y = torch.relu(n for n in x)"): "GeneratorExp",
    body("y = {x}"): "Set",
    body("y = (z := x)"): "NamedExpr",
    body("y = torch.relu(*x)"): "starred",
    body("y = torch.relu(**x)"): "with \\*\\*",
    body("y = {**x}"): "with \\*\\*",
    body("y, *z = x"): "starred",
    body("y = f'{x}'"): "a string with letters in front",
    body("y = b'a'"): "a string with letters in front",
    body("y = r'a'"): "a string with letters in front",
    body("y = ..."): "literal of ellipsis",
    body("global y"): "Global",
    body("nonlocal y"): "Nonlocal",
    body("del x"): "Delete",
    body("assert x"): "Assert",
    body("raise x"): "Raise",
    body("try:\n  pass\nfinally:\n  pass"): "Try",
    body("async with x:\n  pass"): "Async",
    body("async for n in x:\n  pass"): "Async",
    body("y = await x"): "Await",
    body("yield x"): "Yield",
    body("y = yield from x"): "Yield",
    body("match x:\n  case 1:\n    pass"): "Match",
    body("class D:\n  pass"): "ClassDef",
    body("for n in range(2):\n  break"): "Break",
    body("for n in range(2):\n  continue"): "Continue",
    body("for n in x:\n  pass"): "Name in the iter",
    body("for n in range(2):\n  pass\nelse:\n  pass"): "For with orelse",
    body("while x:\n  pass\nelse:\n  pass"): "While with orelse",
    body("y = +i"): "UAdd",
    body("y = 1; z = 2"): "sign ';'",
    body("y = 1_000"): "number '1_000'",
    body("é = x"): "outside of a string",
    body("y = x.__class__"): "attribute __class__",
    body("y = ().__class__.__mro__[1].__subclasses__()"): "attribute __",
}  # fmt: skip
# TorchScript's own parser takes words for names that are keywords of Python alone, and so do we:
# the error is then that of the parser.
_OR_PARSER = r"|does not parse"

ALLOWED = [
    "op_version_set = 1\nimport __torch__.a\ndef f(x):\n  return x\n",
    "class C(Module):\n  __parameters__ = []\n  x : int\n  c : Final[int] = 1\n"
    '  __annotations__["0"] = int\n  def f(self, y: int=2) -> int:\n    return y\n',
    "class E(Enum):\n  A = 1\n",
    "class I(Interface):\n  def f(self) -> int:\n    pass\n",
    "def f(stride: BroadcastingList2[int]=1, x: int) -> int:\n  return x\n",
    body("y = x.from"),
    body("def g():\n  return x\nz = fork(g)"),
    body("if i == 1:\n  pass\nelse:\n  y, z = (x, -i)\nwhile True:\n  pass\nwith x as y:\n  pass"),
    body("for n in range(i):\n  y[n:2, None] = [1.5e-3, inf, 'é'][0]\ny += {1: not x and x}[1]"),
    body("y : Optional[Tensor] = annotate(Optional[Tensor], None)\nz = x if i is None else x @ y"),
    body("y = unchecked_cast(__torch__.my-module.Net, x)\nz = ops.prim.raise(x, )"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "construct"), FORBIDDEN.items())
def test_forbidden_constructs(text, construct):
    with pytest.raises(SourceError, match=construct + _OR_PARSER) as caught:
        check_code(text, RECORD)
    assert caught.value.record == RECORD
    assert 1 <= caught.value.line <= text.count("\n")


@pytest.mark.parametrize("text", ALLOWED[:-1])
def test_allowed_constructs(text):
    check_code(text, RECORD)


def test_a_short_record_is_parsed_once_for_all_that_ask():
    text = body("y = torch.add(i, 1)")
    assert statements_of(text, RECORD) is statements_of(text, RECORD)
    for _ in range(2):
        with pytest.raises(SourceError, match="does not parse"):
            statements_of(body("y = ("), RECORD)


def test_words_of_python_may_be_names():
    check_code(ALLOWED[-1].replace(".raise(", ".RaiseException("), RECORD)


@pytest.mark.parametrize("text", [text for text in FORBIDDEN if text.startswith("def f(x: Tensor")])
def test_forbidden_constructs_are_refused_wherever_code_is_parsed(text):
    with pytest.raises(SourceError):
        graph_of(text)
    with pytest.raises(SourceError):
        needs_of_all({RECORD: text}, {})


def test_the_table_allows_what_is_compiled():
    assert grammar.FIELDS[ast.FunctionDef]["body"] == set(lowering.STATEMENTS)
    expressions = set(lowering.EXPRESSIONS)
    assert grammar.FIELDS[ast.Expr]["value"] == expressions
    assert grammar.FIELDS[ast.BinOp]["op"] == set(grammar.BINARY)
    assert grammar.FIELDS[ast.UnaryOp]["op"] == set(grammar.UNARY)
    assert grammar.FIELDS[ast.Compare]["ops"] >= set(grammar.COMPARISONS)


@pytest.mark.parametrize("kind", sorted(grammar.FIELDS, key=lambda kind: kind.__name__))
def test_the_table_names_fields_and_kinds_that_exist(kind):
    for field, kinds in grammar.FIELDS[kind].items():
        assert field in kind._fields
        assert kinds <= grammar.FIELDS.keys()


def test_defaults_and_annotations_are_not_evaluated():
    header = "def f(x: int={}) -> int:\n  return x\n"
    assert function_of(header.format("3")).schema.arguments[0].default == 3
    with pytest.raises(SourceError, match="'__import__' is not defined"):
        function_of(header.format("__import__('os')")).schema  # noqa: B018
    annotated = "def f(x: {}) -> int:\n  return 1\n"
    assert function_of(annotated.format("List[int]")).schema
    with pytest.raises(SourceError, match=r"is not a type|unknown type"):
        function_of(annotated.format("x[__import__('os').system('true')]")).schema  # noqa: B018


@pytest.mark.parametrize("text", ["__import__('os')", "int if x else str", "List[int()]", "1", ""])
def test_type_lines_are_parsed_and_not_evaluated(text):
    """CVE-2022-45907."""
    with pytest.raises(ArchiveError):
        parse_type(text, lambda name: None)


# One beyond each bound, and what is at it.
def chain(start: str, part: str, end: str, count: int) -> str:
    return body(f"y = {start}{part * count}{end}")


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [("i", "+i", ""), ("x", ".a", ""), ("", "-", "i"), ("", "not ", "i"), ("i", " if i else i", ""),
     ("i", "**i", ""), ("x", "[0]", ""), ("x", "()", ""), ("", "(", ""), ("", "lambda:", "i"),
     ("i", " and i", "")],
)  # fmt: skip
def test_depth_of_expressions(start, part, end):
    message = r"does not parse|nested too deeply|cannot stand"
    with pytest.raises(SourceError, match=message) as caught:
        check_code(chain(start, part, end, 200_000), RECORD)
    assert caught.value.line == 2


def test_depth_is_counted_in_signs():
    check_code(chain("i", ".a", "", MAX_DEPTH // 4), RECORD)
    with pytest.raises(SourceError, match="nested too deeply") as caught:
        check_code(chain("i", ".a", "", MAX_DEPTH), RECORD)
    assert caught.value.limit == MAX_DEPTH


def test_wide_code_is_not_deep():
    many = ", ".join(["i + 1"] * MAX_DEPTH)
    check_code(body(f"y = [{many}]\n" + "z = -i\n" * MAX_DEPTH), RECORD)


@pytest.mark.parametrize("text", ["List[" * 5_000, "int|" * 5_000 + "int", "a." * 100 + "[int]"])
def test_depth_of_types(text):
    with pytest.raises(SourceError):
        parse_type(text, lambda name: None)


def test_members_of_a_union():
    kinds = [f"Tuple[{', '.join(['int'] * count)}]" for count in range(1, MAX_UNION + 2)]
    assert parse_type(f"Union[{', '.join(kinds[:-1])}]", lambda name: None)
    with pytest.raises(SourceError, match="Union of more than"):
        parse_type(f"Union[{', '.join(kinds)}]", lambda name: None)


def test_length_of_names():
    check_code(body(f"{'a' * MAX_NAME} = x"), RECORD)
    with pytest.raises(SourceError, match="a name of more than"):
        check_code(body(f"{'a' * (MAX_NAME + 1)} = x"), RECORD)


def test_digits_of_numbers():
    check_code(body(f"y = {'9' * (MAX_NUMBER - 1)}."), RECORD)
    for number in ("9" * (MAX_NUMBER + 1), "0x" + "f" * 5_000, "9" * 100_000):
        with pytest.raises(SourceError, match="a number of more than"):
            check_code(body(f"y = {number}"), RECORD)


def test_range_of_integers():
    assert graph_of("def f() -> int:\n  return 9223372036854775807\n")
    for number in ("9223372036854775808", "-9223372036854775809", "9" * 300):
        with pytest.raises(SourceError, match="64 bits"):
            graph_of(f"def f() -> int:\n  return {number}\n")


def test_number_of_definitions(monkeypatch):
    monkeypatch.setattr("tsarchive.frontend.splitting.MAX_DEFINITIONS", 3)
    text = "".join(f"def f{number}(x):\n  return x\n" for number in range(4))
    assert importer_of(text.partition("def f3")[0]).definitions(RECORD)
    with pytest.raises(SourceError, match="more than 3 definitions"):
        importer_of(text).definitions(RECORD)
    assert MAX_DEFINITIONS > 50_000


def test_size_of_a_record(monkeypatch):
    text = body("y = x")
    monkeypatch.setattr("tsarchive.ir.text_limits.MAX_CODE_CHARACTERS", len(text))
    check_code(text, RECORD)
    with pytest.raises(SourceError, match="characters is not read"):
        check_code(text + "\n", RECORD)


def test_attributes_are_those_that_a_type_declares():
    text = "class C:\n  _x : int\ndef f(c: __torch__.C) -> int:\n  return c.{}\n"
    assert only(graph_of(text.format("_x")), "prim::GetAttr").name == "_x"
    for name in ("_y", "x", "__class__", "__dict__", "__init__", "_parameters"):
        with pytest.raises(SourceError, match="attribute"):
            graph_of(text.format(name))


@pytest.mark.parametrize(
    ("template", "shown"),
    [("{}", "3"), ("{} {}", None), ("{0}", "{0}"), ("{0.__class__}", "{0.__class__}"),
     ("{!r}", "{!r}"), ("{:>9999999999}", "{:>9999999999}"), ("{}{0[a]}", "3{0[a]}")],
)  # fmt: skip
def test_format_knows_empty_braces_only(template, shown):
    run = NATIVES["aten::format"]
    if shown is None:
        with pytest.raises(ScriptError, match="Too few arguments"):
            run(template, 3)
    else:
        assert run(template, 3) == shown


@pytest.mark.parametrize("template", ["%9999999999d", "%.99999999f", "%*d", "%(a)s", "%r", "%-5d"])
def test_percent_format_knows_no_width(template):
    assert NATIVES["aten::percentFormat"]("%d", 3) == "3"
    with pytest.raises(ScriptError):
        NATIVES["aten::percentFormat"](template, 3)


HUGE = 1 << 62
TOO_LARGE = [
    ("aten::ljust", ("a", HUGE, " ")),
    ("aten::rjust", ("a", HUGE, " ")),
    ("aten::center", ("a", HUGE, " ")),
    ("aten::zfill", ("a", HUGE)),
    ("aten::expandtabs", ("\t", HUGE)),
    ("aten::replace", ("", "", "ab", HUGE)),
    ("aten::replace", ("a" * 2**14, "a", "b" * 2**15, -1)),
    ("aten::join", ("a" * 2**15, [""] * 2**14)),
    ("aten::format", ("{}" * 2**14, *["a" * 2**15] * 2**14)),
    ("aten::percentFormat", ("%s" * 2**14, ("a" * 2**15,) * 2**14)),
    ("aten::str", ([["a" * 2**10] * 2**10] * 2**10,)),
    ("aten::str", ({1: ["a" * 2**15] * 2**14},)),
    ("aten::mul.left_t", ([1], HUGE)),
    ("aten::mul.right_", (HUGE, [1])),
    ("aten::mul_.t", ([1], HUGE)),
    ("prim::rangelist", (HUGE,)),
]


@pytest.mark.parametrize(("name", "arguments"), TOO_LARGE, ids=[name for name, _ in TOO_LARGE])
def test_what_one_operator_makes_is_bounded(name, arguments):
    with pytest.raises(ScriptError, match="is not made") as caught:
        NATIVES[name](*arguments)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.limit in (MAX_BYTES, MAX_ITEMS)


@pytest.mark.parametrize(
    ("name", "arguments", "limit"),
    [
        ("aten::ljust", lambda n: ("a", n, " "), "MAX_BYTES"),
        ("aten::zfill", lambda n: ("1", n), "MAX_BYTES"),
        ("aten::add.str", lambda n: ("a" * (n - 1), "b"), "MAX_BYTES"),
        ("aten::replace", lambda n: ("ab", "b", "c" * (n - 1), -1), "MAX_BYTES"),
        ("aten::join", lambda n: (",", ["a", "b" * (n - 2)]), "MAX_BYTES"),
        ("aten::format", lambda n: ("{}a", "b" * (n - 1)), "MAX_BYTES"),
        ("aten::mul.left_t", lambda n: ([1], n), "MAX_ITEMS"),
        ("prim::rangelist", lambda n: (n,), "MAX_ITEMS"),
        ("aten::add.t", lambda n: ([1], [2] * (n - 1)), "MAX_ITEMS"),
        ("aten::extend.t", lambda n: ([1], [2] * (n - 1)), "MAX_ITEMS"),
    ],
)
def test_both_sides_of_the_bound(monkeypatch, name, arguments, limit):
    monkeypatch.setattr(f"tsarchive.run.natives.table.{limit}", 100)
    NATIVES[name](*arguments(100))
    with pytest.raises(ScriptError):
        NATIVES[name](*arguments(101))


def test_integers_stay_small():
    assert NATIVES["aten::__lshift__.int"](1, 1 << 40) == 1
    assert NATIVES["aten::pow.int"](2, 1 << 40) == float("inf")
    assert NATIVES["aten::mul.int"](1 << 62, 4) == 0


FOLDED = [
    'torch.ljust("a", 1000000000000, " ")', 'torch.zfill("a", 1000000000000)',
    'torch.replace("", "", "ab", 1000000000000)', "torch.factorial(2147483647)",
    "ops.prim.rangelist(1000000000)", "torch.pow(2, 1000000000)", "torch.__lshift__(1, 1000000)",
    'torch.expandtabs("\\t", 1000000000000)',
]  # fmt: skip


@pytest.mark.parametrize("expression", FOLDED)
def test_folding_makes_nothing_large(expression):
    graph_of(f"def f() -> Any:\n  return {expression}\n")


def test_folding_does_not_double_strings_again_and_again():
    lines = "".join(f"  a{n} = torch.add(a{n - 1}, a{n - 1})\n" for n in range(1, 60))
    graph = graph_of(f'def f() -> str:\n  a0 = "abcdefgh"\n{lines}  return a59\n')
    longest = max(len(node.attributes["value"]) for node in graph.nodes if node.is_constant)
    assert 8 < longest < 2**16


def test_constants_are_those_of_the_table():
    text = "def f() -> Tensor:\n  return CONSTANTS.c{}\n"
    assert compiled(text.format(9))
    for index in ("10", "99999999999999999999", "x", "_1", "__class__"):
        with pytest.raises(SourceError):
            compiled(text.format(index))


def test_constants_of_an_archive_without_constants():
    archive = hand_written(method("return CONSTANTS.c0"))
    loaded = tsarchive.load(io.BytesIO(archive), policy=Policy.trusted())
    with pytest.raises(ArchiveError, match="constant"):
        loaded(torch.ones(2))


@pytest.mark.parametrize(
    "name", ["os.system", "sys.exit", "builtins.eval", "__builtins__", "globals()", "open('a')"]
)
def test_calls_resolve_to_archive_code_or_operators(name):
    with pytest.raises(SourceError):
        graph_of(body(f"y = {name}(x)"))


@pytest.mark.parametrize(
    "line", ["y = torch.add(x, x)", "y = 0x10", "y = x # a remark", "y = 'a' 'b'", "y = -1 + 2"]
)
def test_torch_reads_what_is_allowed_here(line):
    text = method_text("x: Tensor", f"{line}\nreturn x")
    check_code(text, RECORD)
    assert torch_functions_of(text)
