"""Layouts of code records, words that only Python reserves, and what is read when."""

from __future__ import annotations

import sys

import pytest

from tests.support.frontend import function_of, importer_of, only, reprinted, walk
from tsarchive.errors import SourceError, UnknownClassError
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.splitting import split_class, split_record
from tsarchive.ir.classes import ClassType, FunctionType
from tsarchive.ir.types import INT, TENSOR

REGULAR = """class A(Module):
  __parameters__ = ["w", ]
  __buffers__ = []
  w : Tensor
  __annotations__["0"] = int
  size : Final[int] = 3
  def forward(self: __torch__.A,
    x: Tensor) -> Tensor:
    return torch.neg(x)
  def other(self: __torch__.A) -> int:
    return 1
def f(x: Tensor) -> Tensor:
  def __forked_function():
    return x
  _0 = fork(__forked_function)
  return torch.wait(_0)
class B:
  a : __torch__.A
"""
IRREGULAR = '''
class A(Module):

    __parameters__ = ["w"]
    __buffers__ = []
    w: Tensor
    __annotations__["0"] = int
    size: Final[int] = 3

    def forward(self, x: Tensor) -> Tensor:
        """What it does."""
        return torch.neg(
x)
    def other(self) -> int: return 1

# A comment
def f(x: Tensor) -> Tensor:
\tdef __forked_function():
\t\treturn x
\t_0 = fork(__forked_function)
\treturn torch.wait(_0)
class B: a: __torch__.A
'''


def shape_of(text):
    """What a record defines, without line numbers."""
    importer = importer_of(text)
    found = {}
    for name in importer.definitions("code/__torch__.py"):
        named = importer.find(name)
        if isinstance(named, FunctionType):
            found[name] = [node.kind for node in walk(named.function.graph)]
            continue
        assert isinstance(named, ClassType)
        found[name] = (
            named.is_module,
            [(slot.name, slot.is_parameter) for slot in named.attributes.values()],
            list(named.constants),
            {key: len(method.graph.returns) for key, method in named.methods.items()},
        )
    return found


def test_any_layout_that_python_takes_is_read_the_same():
    assert shape_of(REGULAR) == shape_of(IRREGULAR)
    assert reprinted(REGULAR) == REGULAR


@pytest.mark.parametrize("text", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_pieces_know_their_lines(text):
    lines = text.split("\n")
    for piece in split_record(text, "r").values():
        assert lines[piece.first_line - 1].startswith(("class ", "def "))
        if piece.is_class:
            for method in split_class(piece).methods.values():
                assert lines[method.first_line - 1].strip().startswith(f"def {method.name}(")


def test_lines_before_the_first_definition_of_old_archives_are_skipped():
    text = "op_version_set = 1\nimport __torch__.a\ndef f(x: int) -> int:\n  return x\n"
    assert function_of(text).schema.return_type == INT
    between = "def f(x: int) -> int:\n  return x\nimport __torch__.a\ndef g(x):\n  return x\n"
    assert list(split_record(between, "r")) == ["f", "g"]
    assert function_of(between).graph.returns


KEYWORDS = """class M(Module):
  __parameters__ = ["lambda", ]
  __buffers__ = []
  lambda : Tensor
  async : int
  def try(self: __torch__.M,
    from: Tensor,
    yield: int=3) -> Tensor:
    lambda0 = self.lambda
    async0 = self.async
    _0 = torch.add(torch.add(from, lambda0), torch.mul(async0, yield))
    return _0
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return (self).try(x, 2, )
"""


def test_python_s_keywords_may_be_names():
    class_ = importer_of(KEYWORDS).find_class("__torch__.M")
    assert list(class_.attributes) == ["lambda", "async"]
    assert [argument.name for argument in class_.methods["try"].schema.arguments] == [
        "self", "from", "yield",
    ]  # fmt: skip
    assert only(class_.methods["forward"].graph, "prim::CallMethod").name == "try"
    text = KEYWORDS.replace("    lambda0 = ", "    lambda0 = \\\n")
    assert list(importer_of(text).find_class("__torch__.M").attributes) == ["lambda", "async"]


def test_words_inside_of_strings_are_left_alone():
    text = 'def f(lambda: str) -> str:\n  return torch.add(lambda, "from lambda \\" async")\n'
    constant = function_of(text).graph.returns[0].node.inputs[1].node.attributes["value"]
    assert constant == 'from lambda " async'


class Files(dict):
    """Code records that note which of them are read."""

    def __init__(self, files):
        super().__init__()
        self.read = []
        for name, text in files.items():
            self[name] = lambda name=name, text=text: self._read(name, text)

    def _read(self, name, text):
        self.read.append(name)
        return text


def lazy(files):
    records = Files(files)
    importer = CodeImporter(
        records,
        operators=lambda kind: (),
        constant=lambda index: (None, TENSOR),
        version=10,
        native_class=lambda name: None,
        evaluate=lambda schema: None,
    )
    return importer, records.read


MAIN = """class M(Module):
  other : __torch__.a.Other
  def forward(self: __torch__.M) -> int:
    return __torch__.b.broken()
"""


def test_records_are_read_when_first_needed():
    importer, read = lazy(
        {
            "code/__torch__.py": MAIN,
            "code/__torch__/a.py": "class Other:\n  x : int\n",
            "code/__torch__/b.py": "def broken() -> int:\n  return ***\n",
            "code/__torch__/c.py": "nonsense",
        }
    )
    assert read == []
    class_ = importer.find_class("__torch__.M")
    assert read == ["code/__torch__.py", "code/__torch__/a.py"]
    assert importer.find_class("__torch__.M") is class_
    assert importer.find("__torch__.a.nothing") is None
    assert importer.find("__torch__.x.Y") is None
    method = class_.methods["forward"]
    assert method.schema.return_type == INT
    assert read == ["code/__torch__.py", "code/__torch__/a.py"]
    with pytest.raises(SourceError) as caught:
        importer.find("__torch__.b.broken").function.graph  # noqa: B018
    assert (caught.value.record, caught.value.line) == ("code/__torch__/b.py", 2)


def elifs(count: int, last: str) -> str:
    """A chain of ``elif``, as torch writes it; ``last`` is what the innermost block assigns."""
    lines = ["def f(n: int) -> int:"]
    lines += ["  " * depth + f"if torch.eq(n, {depth}):\n" + "  " * (depth + 1) + f"r = {depth}\n"
              + "  " * depth + "else:" for depth in range(1, count + 1)]  # fmt: skip
    return "\n".join([*lines, "  " * (count + 1) + f"r = {last}", "  return r", ""])


@pytest.mark.parametrize("count", [88, 89, 90, 99, 105])
def test_blocks_are_read_where_python_refuses_to(count):
    graph = function_of(elifs(count, "torch.neg(n)")).graph
    assert [node.kind for node in walk(graph)].count("prim::If") == count
    assert only(graph, "aten::neg")
    with pytest.raises(SourceError, match="'nothing' is not defined") as caught:
        function_of(elifs(count, "nothing")).graph  # noqa: B018
    assert caught.value.line == 3 * count + 2


def test_blocks_side_by_side_are_read_at_any_depth():
    inner = elifs(104, "n").splitlines()[1:-1]
    text = "\n".join(["def f(n: int) -> int:", *inner, *inner, "  return r", ""])
    graph = function_of(text).graph
    assert [node.kind for node in walk(graph)].count("prim::If") == 208


def test_the_bound_of_depth_is_named():
    with pytest.raises(SourceError, match="nested too deeply") as caught:
        function_of(elifs(sys.getrecursionlimit() // 2, "n")).graph  # noqa: B018
    assert caught.value.limit == sys.getrecursionlimit()
    assert "setrecursionlimit" in str(caught.value)


def test_bodies_are_compiled_when_their_graph_is_asked_for():
    text = "def f(x: Tensor) -> Tensor:\n  return nothing\n"
    function = function_of(text)
    assert function.schema.return_type == TENSOR
    for _ in range(2):
        with pytest.raises(SourceError, match="'nothing' is not defined"):
            function.graph  # noqa: B018


def test_a_failed_import_fails_again():
    importer = importer_of("class A:\n  x : __torch__.A\n  y : __torch__.Nothing\n")
    for _ in range(2):
        with pytest.raises(UnknownClassError, match=r"does not define __torch__\.Nothing"):
            importer.find("__torch__.A")


def test_types_of_tags_are_parsed_with_the_archive_s_classes():
    importer = importer_of("class A:\n  x : int\n")
    found = importer.parse_type("Dict[str, List[__torch__.A]]")
    assert found.value.element is importer.find("__torch__.A")
    assert importer.parse_type("Dict[str, List[__torch__.A]]") is found


def test_classes_that_libraries_register_are_found_first():
    native = ClassType("__torch__.torch.classes.lib.Handle", is_native=True)
    importer = CodeImporter(
        {"code/__torch__/torch/classes/lib.py": "class Handle:\n  capsule : Capsule\n"},
        operators=lambda kind: (),
        constant=lambda index: (None, TENSOR),
        version=10,
        native_class={native.qualified_name: native}.get,
        evaluate=lambda schema: None,
    )
    assert importer.find(native.qualified_name) is native
    with pytest.raises(UnknownClassError, match="not registered in this process"):
        importer.find_class("__torch__.torch.classes.lib.Other")
