"""Code that cannot be imported: the error, and the place that it names."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.archives import ARCHIVES
from tests.support.frontend import OpenedArchive, functions_of, graph_of, importer_of
from tests.support.suite import examples
from tsarchive.errors import ArchiveError, SourceError, UnknownClassError, UnknownOperatorError
from tsarchive.operators.libraries import what_registers

CLASSES = """class C:
  x : int
  def m(self: __torch__.C,
    n: int) -> int:
    return n
class Color(Enum):
  RED = 1
class Point(NamedTuple):
  x : int
class I(Interface):
  def run(self, x: int) -> int:
    pass
def g(x: int) -> int:
  return x
"""
# Statements in `def f(x: Tensor, i: int, b: bool, o: Optional[int], c: C, t: Tuple[int, str])`,
# and a part of what the message says.
STATEMENTS = [
    # Python that is not TorchScript
    ("import os", "Import"),
    ("y = lambda: 1", "does not parse|Lambda"),
    ("y = [n for n in [1]]", "ListComp"),
    ("y = {n: 1 for n in [1]}", "DictComp"),
    ("y = f'{x}'", "a string with letters in front"),
    ("y = b'a'", "a string with letters in front"),
    ("y = ...", "ellipsis"),
    ("y = torch.relu(*x)", "starred"),
    ("y = torch.relu(**x)", "with \\*\\*"),
    ("y = {**x}", "dict with"),
    ("y = (z := x)", "NamedExpr"),
    ("y = await x", "does not parse|Await"),
    ("yield x", "does not parse|Yield"),
    ("y, *z = t", "starred"),
    ("del x", "Delete"),
    ("assert b", "Assert"),
    ("raise x", "Raise"),
    ("global y", "Global"),
    ("try:\n    pass\n  finally:\n    pass", "Try|does not parse"),
    ("class D:\n    pass", "ClassDef"),
    ("async def h():\n    return 1", "Async|does not parse"),
    ("def h(a):\n    return a", "decorators or parameters"),
    ("@g\n  def h():\n    return x", "FunctionDef with decorator_list"),
    ("return x", "Return"),
    ("for n in [1, 2]:\n    pass", "List in the iter of For"),
    ("for n in range(1, 2):\n    pass", "a loop other than"),
    ("for n, m in range(2):\n    pass", "Tuple in the target of For"),
    ("for n in range(2):\n    pass\n  else:\n    pass", "with orelse"),
    ("while b:\n    pass\n  else:\n    pass", "with orelse"),
    ("while b:\n    break", "Break"),
    ("y = 1 < i < 2", "comparison"),
    ("y = +i", "UAdd"),
    ("i //= 2", "this sign"),
    ("t[0] += 1", "an assignment to this"),
    ("y: int", "a declaration without value"),
    ("x[0]: int = 1", "an annotation of this"),
    ("y = 'a\\x41'", "unknown escape"),
    ("y = 'a\\u0041'", "unknown escape"),
    ("y = 9223372036854775808", "64 bits"),
    # Names
    ("y = nothing", "'nothing' is not defined"),
    ("y = (torch, 1)", "is not a value"),
    ("y = [torch.relu]", "is not a value"),
    ("y = __torch__.C\n  z = torch.neg(y)", "is not a value"),
    ("y = __torch__.nothing.here(1)", "cannot be called"),
    ("y = __torch__.Color.GREEN", "no member 'GREEN'"),
    ("y = __torch__.C.m(c, 1)", "no member 'm'"),
    ("y = CONSTANTS.c99", "beyond the end of the constant table"),
    ("y = CONSTANTS.x", "names no constant"),
    ("if b:\n    y = 1\n  else:\n    pass\n  z = y", "not assigned on all paths"),
    ("if b:\n    y = 1\n  else:\n    y = x\n  z = y", "int in one branch and Tensor"),
    ("for n in range(i):\n    y = n\n  z = y", "'y' is not defined"),
    # Types
    ("y : str = i", "annotated with str"),
    ("y : Nothing = i", "unknown type 'Nothing'"),
    ("y = annotate(str, i)", "expected str, but found int"),
    ("y = annotate(int)", "wrong arguments for annotate"),
    ("y = unchecked_cast(int, i, i)", "wrong arguments"),
    ("y = uninitialized(3)", "is not a type"),
    ("y = isinstance(i, 3)", "is not a type"),
    ("y = getattr(c, i)", "must be a string literal"),
    ("y = x.tolist()", "type of its result"),
    ("y = fork(i)", "a function that is defined before"),
    ("y = c.nothing", "no attribute or method 'nothing'"),
    ("c.nothing = 1", "no attribute 'nothing'"),
    ("c.x = b", "is of type int, but is assigned a value of type bool"),
    ("x.y = 1", "Tensor has no attribute 'y'"),
    ("y = (c).m()", "argument 'n' is missing"),
    ("y = (c).m(x, i)", "takes 2 positional arguments, not 3"),
    ("y = (c).m(n=i, z=i)", "keyword argument 'z' is unknown"),
    ("y = (c).nothing()", "no attribute or method"),
    ("y = __torch__.g(b, i)", "takes 1 positional"),
    ("y = __torch__.g(o)", "argument 'x' must be int, not Optional\\[int\\]"),
    ("y = __torch__.Point(i, i)", "takes 1 positional"),
    ("y = __torch__.I()", "cannot be created by a call"),
    ("y = __torch__.C.__new__(__torch__.Point)", "takes its own class"),
    ("y = (x)(1)", "cannot be called"),
    ("y = i[0]", "has no elements"),
    ("y = t[2]", "index 2 is out of range"),
    ("y = t[i]", "must be an integer literal"),
    ("y = t['a']", "has no element"),
    ("y = t[i:]", "must be integer literals"),
    ("y = x['a']", "cannot be indexed with str"),
    ("y, z, w = t", "2 values to unpack into 3 names"),
    ("y, z = i", "cannot be unpacked"),
    ("y, z = 1, 2, 3", "3 values for 2 names"),
    ("y = {1: 2, 'a': 3}", "a key of type str"),
    ("y = {[1]: 2}", "keys of type List"),
    ("y = annotate(List[int], ['a'])", "an element of type str"),
    ("with i:\n    pass", "no __enter__"),
    ("with c:\n    pass", "no __enter__"),
    ("for n in range(x):\n    pass", "must be an int, not Tensor"),
    ("y = 1.\n  if b:\n    y = 1\n  else:\n    pass", "'y' was of type float"),
    ("y = 1\n  if b:\n    y : int = 1\n  else:\n    pass", "has a type already"),
    ("y = g\n  if b:\n    y = 1\n  else:\n    pass", "is not defined"),
    ("y = __torch__.g\n  if b:\n    y = 1\n  else:\n    pass", "cannot be assigned again"),
    ("y = 1 if b else 'a'", "no common type"),
    ("y = 1\n  for n in range(i):\n    def y():\n      return 1\n    y = 2", "assigned again"),
]


@pytest.mark.parametrize(
    ("statement", "message"), STATEMENTS, ids=[statement for statement, _ in STATEMENTS]
)
def test_statements_that_cannot_be_compiled(statement, message):
    header = (
        "def f(x: Tensor, i: int, b: bool, o: Optional[int], c: __torch__.C, t: Tuple[int, str])"
        " -> Tensor:\n"
    )
    text = f"{CLASSES}{header}  {statement}\n  return x\n"
    with pytest.raises(SourceError, match=message) as caught:
        graph_of(text)
    first = text.split("\n").index(header.rstrip("\n")) + 2
    assert caught.value.record == "code/__torch__.py"
    assert first <= caught.value.line <= first + statement.count("\n")


RECORDS = [
    ("print('hello')\n", "Expr outside of classes and functions"),
    ("from os import system\n", "ImportFrom outside of classes"),
    ("x = 1\n", "holds classes and functions only"),
    ("@decorator\ndef f(x):\n  return x\n", "FunctionDef with decorator_list"),
    ("async def f(x):\n  return x\n", "AsyncFunctionDef|does not parse"),
    ("class C(Other):\n  x : int\n", "superclass 'Other'"),
    ("class C(Module, Module):\n  x : int\n", "one superclass"),
    ("class C(metaclass=x):\n  x : int\n", "ClassDef with keywords"),
    ("class C:\n  x = 1\n", "without a type"),
    ("class C:\n  x : int\n  x : int\n", "declared twice"),
    ("class C:\n  print(1)\n", "Expr in the body of ClassDef"),
    ("class C:\n  x : Nothing\n", "unknown type 'Nothing'"),
    ("class C:\n  x : List[\n", "does not parse|is not a type"),
    ("class C:\n  x : Final[int] = [1]\n", "expected int, but found List"),
    ("class C:\n  x : Final[int] = torch.len([1])\n", "not a constant"),
    ("class C:\n  x : Final[int] = nothing\n", "is not defined"),
    ("class C:\n  x : Final[int] = 1 1\n", "does not parse"),
    ('class C(Module):\n  __parameters__ = ["a", b]\n', "list of quoted names"),
    ('class C(Module):\n  __forward_hooks__ = ["h", ]\n', "no function for 'h'"),
    ("class C:\n  def f(self):\n    return 1\n  def f(self):\n    return 1\n", "defines f twice"),
    ("class C:\n  @property\n  def f(self):\n    return 1\n", "FunctionDef with decorator_list"),
    ("class C(NamedTuple):\n  x = 1\n", "annotated fields only"),
    ("class C(NamedTuple):\n  x : int\n  def f(self):\n    return 1\n", "annotated fields only"),
    ("class C(NamedTuple):\n  x : __torch__.C\n", "contains itself"),
    ("class C(Enum):\n  A : int\n", "members with a value"),
    ("class C(Enum):\n  A = 1\n  B = 2.\n", "differ in type"),
    ("class C(Enum):\n  A = [1]\n", "int, float or string literal"),
    ("class C(Enum):\n  pass\n", "differ in type"),
    ("class C(Interface):\n  x : int\n", "methods only"),
    ("class C(Interface):\n  def f() -> int:\n    pass\n", "no self"),
    ("class C:\n  def f() -> int:\n    return 1\n", "no self"),
    ("def C(*args) -> int:\n  return 1\n", "arguments with vararg"),
    ("def C(x: int, *, y: int) -> int:\n  return 1\n", "arguments with kwonlyargs"),
    ("def C(x: int, /) -> int:\n  return 1\n", "arguments with posonlyargs"),
    ("def C(x: nothing) -> int:\n  return 1\n", "unknown type 'nothing'"),
    ("def C(x: int='a') -> int:\n  return 1\n", "expected int, but found str"),
    ("def C(x=1) -> int:\n  return 1\n", "no type"),
    ("def C(x: int) -> 3:\n  return 1\n", "is not a type"),
    ("def C(x: int) -> str:\n  return x\n", "int is returned where str is declared"),
    ("def C(x: int) -> str:\n  pass\n", "NoneType is returned where str"),
    ("def C(x: int):\n  return __torch__.C(x, )\n", "C is called recursively"),
    ("def C(x: int) -> int:\nreturn x\n", "does not parse|only"),
    ("def C(x: int) -> int:\n  return (x\n", "does not parse"),
    ("def C(x: int) -> int:\n  return \0\n", "does not parse|not text|cannot stand"),
    ("def C(x: int) -> int:\n  return " + "(" * 1000 + "x" + ")" * 1000 + "\n", "parse|deep"),
    ("def C(x: int) -> int:\n  return x" + ".a" * 100_000 + "\n", "deep"),
    ("def C(x: int) -> int:\n  return " + "-" * 100_000 + "x\n", "deep|parse"),
    (
        "def C(x):\n" + "".join(" " * n + "if x:\n" for n in range(2, 300)) + "\n",
        "parse",
    ),
]


def everything(text: str) -> None:
    importer = importer_of(text)
    for name in importer.definitions("code/__torch__.py"):
        for function in functions_of(importer.find(name)):
            function.graph  # noqa: B018


@pytest.mark.parametrize(("text", "message"), RECORDS, ids=[text[:50] for text, _ in RECORDS])
def test_definitions_that_cannot_be_imported(text, message):
    with pytest.raises(SourceError, match=message) as caught:
        everything(text)
    assert caught.value.record == "code/__torch__.py"


def doubling(first: str, step: str) -> str:
    """A body that makes a type of 2**60 parts."""
    lines = [f"t0 = {first}", *(step.format(n, n + 1) for n in range(60))]
    return "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: int) -> int:\n" + doubling("(1, 2)", "t{1} = (t{0}, t{0})") + "  return x\n",
        "def f(x: int) -> int:\n" + doubling("(x, x)", "t{1} = (t{0}, t{0})") + "  return x\n",
        "def f(x: int) -> int:\n" + doubling("[x]", "t{1} = [t{0}, [t{0}]]") + "  return x\n",
        "def f(x: int) -> int:\n" + doubling("x", "t{1} = {{1: (t{0}, t{0})}}") + "  return x\n",
        "class C0(NamedTuple):\n  x : int\n"
        + "".join(
            f"class C{n + 1}(NamedTuple):\n  x : __torch__.C{n}\n  y : __torch__.C{n}\n"
            for n in range(60)
        ),
        "def f(x: "
        + "Tuple[" * 40
        + "int"
        + ", int]" * 40
        + ", y: Tuple["
        + "int, " * 20_000
        + "int]) -> int:\n  return 1\n",
    ],
    ids=["constants", "tuples", "lists", "dicts", "named tuples", "annotation"],
)
def test_types_do_not_grow_without_bound(text):
    with pytest.raises(SourceError, match="more than 10000 parts"):
        everything(text)


def test_a_chain_of_classes_is_bounded():
    chain = "".join(f"class C{n}:\n  x : __torch__.C{n + 1}\n" for n in range(3000))
    with pytest.raises(SourceError, match="nested too deeply"):
        importer_of(chain).find("__torch__.C0")


def test_unknown_classes_name_the_record_that_should_define_them():
    with pytest.raises(UnknownClassError, match=r"__torch__\.a\.B") as caught:
        importer_of("class C:\n  x : int\n").find_class("__torch__.a.B")
    assert caught.value.record == "code/__torch__/a.py"
    assert caught.value.hint
    with pytest.raises(UnknownClassError):
        importer_of("def f(x):\n  return x\n").find_class("__torch__.f")


def test_unknown_operators_say_what_to_do():
    with pytest.raises(UnknownOperatorError) as caught:
        everything("def f(x):\n  return ops.torchvision.nms(x, x, 0.5)\n")
    assert "torchvision::nms" in caught.value.message
    assert "import torchvision" in caught.value.hint
    assert str(caught.value).startswith("code/__torch__.py:2: ")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("deepmd::border_op", "'import deepmd.pt'"),
        ("mine::op", "the namespace 'mine'"),
        ("aten::rfft", "Another version"),
        ("__torch__.torch.classes.vulkan.Conv2dPackedContext", "backend='CPU'"),
        ("metal::copy_to_host", "backend='CPU'"),
        ("__torch__.torch.classes.__backends__.demo", "torch.ops.load_library"),
    ],
)
def test_what_is_missing_decides_what_to_do(name, advice):
    assert advice in what_registers(name)


def test_a_missing_class_is_an_error_of_the_record_that_names_it():
    with pytest.raises(UnknownClassError, match=r"elsewhere\.Packed is not") as caught:
        everything("class M(Module):\n  packed : __torch__.torch.classes.elsewhere.Packed\n")
    assert caught.value.record == "code/__torch__.py"


SOURCES = [
    text
    for name in ("if_elif_else", "fork_wait", "enum_attribute", "hook_of_child", "with_nested")
    for text in OpenedArchive(ARCHIVES / f"{name}.pt").records().values()
]
PIECES = (
    "(", ")", "[", "]", "{", "}", ",", ":", "=", ".", "-", "+", "*", "**", "->", "\n", "\t", "#",
    "'", '"', "\\", "@", ";", "lambda", "async", "def", "class", "return", "if", "else", "for",
    "while", "with", "import", "None", "True", "self", "torch", "ops", "fork", "__torch__",
    "CONSTANTS.c0", "Tensor", "List[int]", "1", "2.", "1e400", "10000000000000000000000", "inf",
    "...", "'a'", '"\\x"', "*a", "**k", ":=",
)  # fmt: skip


@settings(max_examples=examples(300))
@given(st.sampled_from(SOURCES), st.data())
def test_damaged_code_gives_errors_of_the_archive(text, data):
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 20)))
        text = text[:start] + data.draw(st.sampled_from(PIECES)) + text[end:]
    with contextlib.suppress(ArchiveError):
        everything(text)
