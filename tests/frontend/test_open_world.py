"""Code in an open world: lowered whatever it names, with what nobody knows said in the graph."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.support.archives import ARCHIVES
from tests.support.frontend import RECORD
from tsarchive import open as open_archive
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import UNKNOWN_NAME, UNLOWERED, UNREACHABLE
from tsarchive.frontend.syntax import parse_statements
from tsarchive.ir.classes import ClassType, FunctionType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import walk
from tsarchive.ir.types import TENSOR, UNKNOWN
from tsarchive.operators.overloads import class_of, overloads_of


def importer(text: str | dict[str, str]) -> CodeImporter:
    return CodeImporter(
        {RECORD: text} if isinstance(text, str) else text,
        operators=overloads_of,
        constant=lambda index: (TableConstant(index), TENSOR),
        version=10,
        native_class=class_of,
        evaluate=lambda schema: None,
        open_world=True,
    )


def function(*lines: str, parameters: str = "x: Tensor, s: str") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"def f({parameters}) -> Tensor:\n{body}".replace("\n    ", "\n  ")


def lowered(*lines: str, **options):
    """The nodes of a function with these lines, and what of it is refused."""
    code = importer(function(*lines, **options))
    nodes = [*walk(code.find("__torch__.f").function.graph.nodes)]
    return nodes, [str(error) for error in code.open.refused]


def kinds(nodes) -> list[str]:
    return [node.kind for node in nodes if node.kind != "prim::Constant"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return ops.nowhere.f(x)", ["nowhere::f"]),
        ("return torch.save(ops.nowhere.f(x), s)", ["nowhere::f", "aten::save"]),
        ("return torch.relu(x, x, x, x)", ["aten::relu"]),
        ("return x.frobnicate(s)", ["aten::frobnicate"]),
        ("return ops.nowhere.f(x).method(s)", ["nowhere::f", "prim::CallMethod"]),
        ("return ops.nowhere.f(x).slot", ["nowhere::f", "prim::GetAttr"]),
        ("return ops.nowhere.f(x)[0]", ["nowhere::f", "aten::__getitem__"]),
        ("return eval(s)", [UNKNOWN_NAME, "prim::CallMethod"]),
        ("return torch.ops.aten.relu(x)", ["aten::relu"]),
        ("return __torch__.nowhere.f(torch.relu(x))", ["aten::relu", UNKNOWN_NAME]),
        ("return torch.utils.load(x)", [UNKNOWN_NAME, "prim::CallMethod"]),
        (
            "return __torch__.torch.classes.mine.Thing.__new__(__torch__.torch.classes.mine.Thing)",
            ["prim::CreateObject", UNLOWERED],  # it is no Tensor
        ),
    ],
)
def test_what_nobody_knows_is_said(line, expected):
    nodes, _ = lowered(line)
    assert kinds(nodes) == expected
    unknown = [node for node in nodes if node.refusal is not None]
    assert all(node.output.type is UNKNOWN and node.place is not None for node in unknown)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("y = __torch__.nowhere.f(torch.save(x, s))", None),
        ("y = 1(torch.save(x, s))", None),
        ("y : int = torch.save(x, s) if True else torch.save(x, s)", "is annotated with int"),
        ("y = annotate(int, s, torch.save(x, s))", "wrong arguments for annotate"),
        ("y, z = (torch.save(x, s), 1, 2)", "3 values for 2 names"),
        ("for i in torch.save(x, s):\n  y = i", "a loop other than"),
        ("while torch.save(x, s):\n  y = 1\nelse:\n  y = 2", "While with orelse"),
        ("x.slot = torch.save(x, s)", "has no attribute 'slot'"),
        ("return torch.save(x, s)", "a statement Return"),
        ("y = s[torch.save(x, s):]", None),
        ("y = (lambda: torch.save(x, s))", "a Lambda in the value"),
    ],
)
def test_what_stands_in_refused_code_is_lowered(line, reason):
    """Unless it is no TorchScript at all: then it is refused as a whole."""
    nodes, refused = lowered(*line.split("\n"), "return x")
    assert bool(refused) == (reason is not None)
    assert any(reason in error for error in refused) or reason is None
    is_grammar = "cannot stand" in "".join(refused) and nodes[0].kind == UNLOWERED
    if not (is_grammar or "While" in (reason or "")):
        assert "aten::save" in kinds(nodes)


@pytest.mark.parametrize("line", ["y = __torch__.nowhere.f", "y, z = (x, x, x)", "y : int = s"])
def test_names_that_refused_statements_assign_hold_anything(line):
    nodes, refused = lowered(line, "return torch.relu(y)")
    assert len(refused) == 1
    assert kinds(nodes)[-1] == "aten::relu"
    assert nodes[-1].output.type is UNKNOWN


def test_what_is_partly_unknown_fits():
    _, refused = lowered(
        "y = ops.nowhere.f(x)", "z = (y, [y], x)", "w : Tuple[Tensor, List[Tensor], Tensor] = z",
        "return torch.relu((w)[0])",
    )  # fmt: skip
    assert not refused


@pytest.mark.parametrize(
    ("condition", "is_literal"), [("False", True), ("not True", True), ("x is None", False)]
)
def test_branches_that_are_ruled_out_are_lowered_aside(condition, is_literal):
    nodes, refused = lowered(
        f"if {condition}:", "  y = torch.neg(torch.nowhere(x))", "else:", "  y = x", "return y"
    )
    (aside,) = [node for node in nodes if node.kind == UNREACHABLE]
    assert aside.attributes["is_literal"] is is_literal
    assert "aten::nowhere" in [node.kind for node in walk(aside.blocks[0].nodes)]
    assert not refused


def test_constants_know_where_they_are_written():
    text = function('y = torch.to(x, torch.device("cuda:0"))', 'return torch.add(y, "cuda:0")')
    graph = importer(text).find("__torch__.f").function.graph
    places = [n.place for n in walk(graph.nodes) if n.attributes.get("value") == "cuda:0"]
    lines = text.split("\n")
    assert len(places) == 2
    for place in places:
        assert lines[place.line - 1][place.column : place.end_column] == '"cuda:0"'


def test_classes_and_signatures_that_are_refused_are_told():
    code = importer(
        "class A(Module):\n  x : __torch__.nowhere.B\n  y : lambda\n"
        "  def f(self: __torch__.A,\n    v: Nothing) -> Tensor:\n    return torch.save(v, self.x)\n"
    )
    class_ = code.find("__torch__.A")
    assert isinstance(class_.attributes["x"].type, ClassType)
    assert class_.attributes["y"].type is UNKNOWN
    assert "aten::save" in kinds(walk(class_.methods["f"].graph.nodes))
    assert len(code.open.refused) == 2


def functions_in(code: CodeImporter, records):
    for record in records:
        for name in code.definitions(record):
            found = code.find(name)
            if isinstance(found, ClassType):
                yield from (*found.methods.values(), *found.hooks())
            elif isinstance(found, FunctionType):
                yield found.function


PATHS = sorted(ARCHIVES.glob("*.pt"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_known_code_is_lowered_as_it_is_for_running(path):
    """And each call in the text is a node of the graph."""
    with open_archive(path) as archive:
        records = {name: text for name, text in archive.code.items() if name.startswith("code/")}
        code = importer(records)
    made: Counter[str] = Counter()
    for found in functions_in(code, records):
        for node in walk(found.graph.nodes):
            made[node.kind] += node.is_written
            is_operator = not node.kind.startswith("prim::")
            assert node.refusal is None or is_operator or path.stem == "non_ascii"
    trees = [parse_statements(text, name, 1) for name, text in records.items()]
    nodes = [node for tree in trees for part in tree for node in ast.walk(part)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func).split(".") for call in calls]
    written = [name[-1] for name in names if name[0] == "torch"]
    for name, count in Counter(written).items():
        assert made[f"aten::{name}"] == count
