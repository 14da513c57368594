"""Code that needs no scan and no parser: what is read the short way has the meaning of the long."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
import tsarchive.formats.torchscript.importer
from tests.support.archives import ARCHIVES
from tsarchive.errors import SourceError
from tsarchive.frontend import grammar
from tsarchive.frontend.importer import FunctionReader, read_literal, read_signature
from tsarchive.frontend.splitting import split_class, split_record
from tsarchive.ir import text_limits as caps
from tsarchive.ir.text_limits import plain_end
from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
)

FILES = [path for path in sorted(ARCHIVES.glob("*.pt")) if not path.name.endswith(".io.pt")]
TOKENS = (
    *"()[]{},,:=+-*.!@~#;?$`\\'\"",
    "\n", "\n", "\n  ", " ", "\t", "\r", '"""', '""', "'''", '"a b"', "'c'", '"\\n"', '"2D"',
    "\\\n", "x", "x1", "a_1", "not ", "if ", "é", "b", "e-5", "1", "0.5", "1e-5", "1.e-05",
    "1e-", "1e5e5", ".5", "1.", "1.2.3", ".5abc", "0x1", "0777", "1j", "9" * 31, "1_000",
)  # fmt: skip


def verdict(text: str, start: int) -> tuple | None:
    try:
        caps._Scan(text, "code/__torch__.py", 1).run(start)
    except SourceError as error:
        return str(error), error.line, error.construct, error.limit
    return None


@given(st.lists(st.sampled_from(TOKENS), max_size=40).map("".join), st.sampled_from([4, 9, 2_000]))
def test_plain_text_would_pass_the_scan(text, deepest):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(caps, "MAX_DEPTH", deepest)
        end = plain_end(text, deepest)
        assert end == 0 or text[end - 1] == "\n"
        assert verdict(text, 0) == verdict(text, end)


@pytest.mark.parametrize(
    "text",
    [
        "def f(self: __torch__.M,\n    x: Tensor) -> Tensor:\n  return x\n",
        'x = [1, -2.5, 1.0000000000000001e-05, "a \\"2D\\" b", (y.z)[0]]\n',
        "x = 9223372036854775807\n",
    ],
)
def test_what_torch_prints_is_plain(text):
    assert plain_end(text, caps.MAX_DEPTH) == len(text)


@pytest.mark.parametrize(
    "text",
    [
        "x # y\n",
        "é = 1\n",
        "x = (\n",
        "x = 'a\n",
        "x = b'a'\n",
        "x = 1x\n",
        "x = 0x1\n",
        "a\t= 1\n",
    ],
)
def test_other_text_is_scanned(text):
    assert plain_end(f"y\n{text}", caps.MAX_DEPTH) == 2


@pytest.mark.parametrize("quote", ["'", '"'])
def test_nothing_is_looked_at_behind_a_string_that_does_not_end(quote):
    # The end of each later quote would be looked for anew, which took hours.
    text = "x = 1\n" + quote + f"\\{quote}" * 2_000_000 + "\n"
    assert plain_end(text, caps.MAX_DEPTH) == len("x = 1\n")


def test_lines_that_may_be_too_deep_are_scanned():
    assert plain_end("y\n" + "+".join("x" * 20) + "\n", 30) == 2


TYPES = {
    "int": INT, "float": FLOAT, "bool": BOOL, "str": STRING, "Tensor": TENSOR, "NoneType": NONE,
    "List[int]": ListType(INT), "Optional[float]": OptionalType(FLOAT),
    "Optional[List[int]]": OptionalType(ListType(INT)), "Tuple[int, int]": TupleType((INT, INT)),
    "Tuple[str]": TupleType((STRING,)), "Tuple[int, Optional[int]]": TupleType(
        (INT, OptionalType(INT))
    ),
}  # fmt: skip
READ = {
    "int": ["0", "-0", "7", "-12", "9" * 18],
    "float": ["0.", "-0.", "1.5", "1.0000000000000001e-05", "00.5", "1.e308", "1.e999"],
    "bool": ["True", "False"],
    "str": ['"zeros"', '""', '"a, (b)"'],
    "Optional[float]": ["None", "0.5"],
    "List[int]": ["[1, 2]", "[-1]"],
    "Optional[List[int]]": ["None", "[1]"],
    "Tuple[int, int]": ["(1, 2)"],
    "Tuple[str]": ['("a",)'],
    "Tuple[int, Optional[int]]": ["(1, None)"],
}
LEFT = {
    "int": ["007", "1.", "True", "9" * 19, "1 ", "+1", "x", "", "1_0"],
    "float": ["1", "inf", "1e5", ".5", "1.5j"],
    "bool": ["1", "true"],
    "str": ["'a'", '"\\n"', '"é"', '"a" "b"', 'f"a"'],
    "Tensor": ["None", "1"],
    "List[int]": ["[]", "[1,2]", "[1, 2.]", "(1, 2)", "[1"],
    "Tuple[int, int]": ["(1)", "(1, 2, 3)", "(1, 2,)", "1, 2"],
    "Tuple[str]": ['("a")', '("a, b",)'],
}


def constant(type_: str, text: str):
    """The constant of a class, read as archives are read."""
    code = f"class M(Module):\n  __parameters__ = []\n  c : Final[{type_}] = {text}\n"
    importer = tsarchive.formats.torchscript.importer.runnable_code(
        {"code/__torch__.py": code}, constant=lambda index: (None, NONE), version=10
    )
    return importer.find("__torch__.M").constants["c"].value


@pytest.mark.parametrize(
    ("type_", "text"), [(type_, text) for type_, texts in READ.items() for text in texts]
)
def test_literals_have_the_value_that_the_parser_gives(type_, text, monkeypatch):
    literal = read_literal(text, TYPES[type_])
    assert literal is not None
    monkeypatch.setattr("tsarchive.frontend.importer.read_literal", lambda *_: None)
    assert repr(literal.value) == repr(constant(type_, text))


@pytest.mark.parametrize(
    ("type_", "text"), [(type_, text) for type_, texts in LEFT.items() for text in texts]
)
def test_other_literals_are_left_to_the_parser(type_, text):
    assert read_literal(text, TYPES[type_]) is None


@pytest.mark.parametrize(
    "text",
    [
        "def if(x: Tensor) -> Tensor:\n",
        "def f(async: Tensor) -> Tensor:\n",
        "def f(None: Tensor) -> Tensor:\n",
        "def f(x: __torch__.__class__.M) -> Tensor:\n",
        "def f(x: __torch__.lambda.M) -> Tensor:\n",
        "def f(x: BroadcastingList2[int]) -> Tensor:\n",
        "def f(x: _size_2_t) -> Tensor:\n",
        "def f(x: Tensor, *y) -> Tensor:\n",
        "def f(x: Tensor,) -> Tensor:\n",
        "def f(x: Tensor=g(1)) -> Tensor:\n",
        "def f(x: Tensor):\n",
        "def f(x: Tensor) -> Tensor: # y\n",
        f"def {'f' * 5_000}(x: Tensor) -> Tensor:\n",
    ],
)
def test_signatures_that_are_left_to_the_parser(text):
    assert read_signature(text) is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_signatures_have_the_meaning_that_the_parser_gives(path):
    archive = tsarchive.open(path)
    importer = tsarchive.formats.torchscript.importer.runnable_code(
        dict(archive.code), constant=lambda index: (None, NONE), version=archive.format_version
    )
    for record, text in archive.code.items():
        for piece in split_record(text, record).values():
            for function in split_class(piece).methods.values() if piece.is_class else [piece]:
                reader = FunctionReader(importer, f"__torch__.{function.name}", function)
                short = reader._plain_schema()
                if short is not None:
                    assert repr(short) == repr(reader._parsed_schema())


SNIPPETS = [
    "def f(x: Tensor) -> Tensor:\n  return x\n", "def f(x=1, y: int=2):\n  pass\n",
    "class M(Module):\n  a : int\n  def f(self):\n    return self.__class__\n", "import os\n",
    "def f(x):\n  return g(*x)\n", "def f(x):\n  return g(**x)\n", "def f(x):\n  return {**x}\n",
    "def f(x):\n  return b'a'\n", "def f(x):\n  return ...\n",
    "def f(x):\n  return [y for y in x]\n",
    "def f(x):\n  while x:\n    pass\n  else:\n    pass\n", "_ = 1\n", "x\n",
    "@g\ndef f(x):\n  pass\n",
    "def f(x):\n  x.y[1:2, 3] = -x if x else (not x)\n", "def f(x):\n  return (y := x)\n",
]  # fmt: skip


def is_allowed(node: ast.AST) -> bool:
    """Whether each field of a node, and of those inside, holds what the table allows."""
    for field, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.expr_context) or not isinstance(part, ast.AST):
                continue
            if type(part) not in grammar.FIELDS[type(node)].get(field, ()) or not is_allowed(part):
                return False
    match node:
        case ast.Constant(value):
            return isinstance(value, bool | int | float | complex | str | None)
        case ast.Attribute(attr=name):
            return name not in grammar.OF_PYTHON
        case ast.keyword(arg=None):
            return False
    return not (isinstance(node, ast.Dict) and None in node.keys)


@pytest.mark.parametrize("text", SNIPPETS)
def test_trees_are_refused_where_the_table_does_not_allow_them(text):
    body = ast.parse(text).body
    in_record = {ast.Assign, ast.ClassDef, ast.FunctionDef, ast.Import}
    refused = False
    try:
        grammar.check_tree(body, text, "code/__torch__.py", 1)
    except SourceError:
        refused = True
    assert refused is not all(type(node) in in_record and is_allowed(node) for node in body)
