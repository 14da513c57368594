"""The overload of an operator that a call means, against torch's own compiler."""

from __future__ import annotations

import pytest
import torch

from tests.support.frontend import (
    RECORD,
    calls_of,
    constant_of,
    graph_of,
    method_text,
    only,
    torch_calls_of,
    torch_functions_of,
)
from tsarchive.errors import SourceError, UnknownOperatorError
from tsarchive.frontend.matching import BLOCKED
from tsarchive.ir.schema import parse_schema
from tsarchive.ir.types import FLOAT, INT, STRING, TENSOR, ListType, OptionalType

PARAMETERS = """x: Tensor, y: Tensor, i: int, f: float, b: bool, s: str, n: number, c: complex,
    d: Device, li: List[int], lf: List[float], lt: List[Tensor], ls: List[str],
    ot: Optional[Tensor], oi: Optional[int], oli: Optional[List[int]], dst: Dict[str, Tensor],
    dii: Dict[int, int],
    ti: Tuple[int, int], tt: Tuple[Tensor, Tensor], a: Any"""

CALLS = """
torch.add(x, y) torch.add(x, 1) torch.add(x, f) torch.add(x, y, alpha=2) torch.add(x, i, 2)
torch.add(i, i) torch.add(f, f) torch.add(i, f) torch.add(f, i) torch.add(n, i) torch.add(s, s)
torch.add(li, li) torch.add(c, c) torch.add(c, i) torch.add(b, i) torch.add(b, f) torch.add(x, b)
torch.sub(x, 1) torch.mul(x, True) torch.mul(x, c) torch.div(x, y) torch.div(x, 2) torch.div(i, i)
torch.div(x, y, rounding_mode="floor") torch.div(x, 2, rounding_mode=None) torch.rsub(x, 1)
torch.pow(x, 2) torch.pow(2, x) torch.pow(i, i) torch.pow(f, i) torch.remainder(x, 2)
torch.eq(x, y) torch.eq(x, 1) torch.eq(s, s) torch.eq(b, i) torch.eq(li, li) torch.eq(d, d)
torch.ne(i, f) torch.lt(i, f) torch.gt(x, 0) torch.ge(s, s) torch.neg(x) torch.neg(i)
torch.sum(x) torch.sum(x, 0) torch.sum(x, [0]) torch.sum(x, li, True, dtype=6) torch.sum(li)
torch.mean(x, [0, 1]) torch.mean(x, dtype=7) torch.max(x) torch.max(x, y) torch.max(x, 1)
torch.max(x, 1, True) torch.min(x, dim=0) torch.std(x, 0) torch.var(x, [0], unbiased=False)
torch.size(x) torch.size(x, 0) torch.stride(x, 1) torch.len(li) torch.len(s) torch.len(dst)
torch.len(x) torch.view(x, [1, 2]) torch.view(x, 1, 2) torch.view(x, 1) torch.reshape(x, ti)
torch.zeros(1, 2) torch.zeros([1, 2]) torch.zeros(li) torch.zeros(i) torch.zeros(ti)
torch.ones([2], dtype=6, device=d) torch.full([2], 1) torch.full([2], f) torch.full([2], True)
torch.rand([1], dtype=None) torch.arange(3) torch.arange(0, i) torch.arange(0., 1, f)
torch.linspace(0, 1, 5) torch.tensor(1) torch.tensor(f) torch.tensor([1, 2]) torch.tensor(lf)
torch.to(x, 6) torch.to(x, y) torch.to(x, d) torch.to(x, d, 6) torch.to(x, dtype=6)
torch.to(x, dtype=6, layout=0, device=d) torch.to(x, "cpu") torch.ones([1], device="cpu")
torch.cat([x, y]) torch.cat((x, y), 1) torch.cat(tt) torch.cat(lt) torch.stack(tt)
torch.index(x, [y]) torch.index(x, [None, y]) torch.slice(x) torch.slice(x, 0, 1) torch.slice(li, 1)
torch.slice(s, 0, 2) torch.select(x, 0, i) torch.transpose(x, 0, 1) torch.permute(x, [1, 0])
torch.squeeze(x) torch.squeeze(x, 0) torch.unsqueeze(x, i) torch.flatten(x, 1)
torch.softmax(x, 0) torch.softmax(x, 0, 6) torch.dropout(x, 0.5, b) torch.relu(input=x)
torch.conv2d(x, y) torch.conv2d(x, y, ot, [1], [0, 0]) torch.max_pool2d(x, 2)
torch.max_pool2d(x, [2, 2], stride=2) torch.avg_pool2d(x, 3, li) torch.adaptive_avg_pool2d(x, [1])
torch.upsample_nearest2d(x, [4, 4]) torch.upsample_nearest2d(x, [4, 4], None)
torch.upsample_nearest2d(x, oli, None) torch.upsample_bilinear2d(x, [4, 4], False, None)
torch.batch_norm(x, ot, ot, ot, ot, True, 0.1, 1e-05, True) torch.layer_norm(x, [4], ot, ot)
torch.linear(x, y) torch.embedding(x, y) torch.einsum("i,i", [x, y]) torch.norm(x, 2)
torch.norm(x, 2, [0]) torch.clamp(x, 0, None) torch.clamp(x, ot, y) torch.where(x)
torch.where(x, y, x) torch.where(x, 1, y) torch.gelu(x) torch.gelu(x, approximate="tanh")
torch.__getitem__(li, 0) torch.__getitem__(dst, s) torch.__getitem__(s, 0) torch.append(li, i)
torch.append(lt, x) torch.pop(li) torch.insert(li, 0, i) torch.extend(lf, lf) torch.sort(li)
torch.sort(x) torch.sorted(li) torch.keys(dst) torch.items(dii) torch.values(dst)
torch.get(dst, s) torch.get(dii, i, 0) torch._set_item(dii, i, i) torch.__contains__(li, i)
torch.__contains__(dst, s) torch.__contains__(ls, s) torch.list(s) torch.list(li) torch.copy(li)
torch.format("{} {}", 1, x) torch.format("") torch.join(s, ls) torch.split(s, s) torch.split(x, 1)
torch.split(x, li, 1) torch.str(i) torch.Int(x) torch.Float(n) torch.Bool(i) torch.ord(s)
torch.floordiv(i, i) torch.floordiv(f, i) torch.floor_divide(x, 2) torch.__is__(ot, None)
torch.__isnot__(x, y) torch.__not__(b) torch.__and__(b, b) torch.__or__(i, i) torch.bitwise_not(x)
torch.is_floating_point(x) torch.dim(x) torch.numel(x) torch.item(x) torch.contiguous(x)
torch.contiguous(x, memory_format=2) torch.copy_(x, y) torch.add_(x, 1) torch.masked_fill(x, y, 0)
torch.masked_fill(x, y, x) torch.scatter(x, 0, y, x) torch.scatter(x, 0, y, 1) torch.topk(x, 1)
torch.device("cuda", 1) torch.device(s) torch.warn("text") torch.manual_seed(1)
torch._unwrap_optional(ot) torch._unwrap_optional(oi) torch.hash(i)
"""
EXPRESSIONS = [call for call in CALLS.replace("\n", " ").split(" torch.") if "(" in call]
CASES = [f"torch.{call.strip().removeprefix('torch.')}" for call in EXPRESSIONS] + [
    "x + 1", "1 + i", "x - y", "x * f", "x / 2", "i / i", "i // 2", "x % 2", "i % 2", "x ** 2",
    "x @ y", "x & y", "x | y", "~x", "-x", "-i", "not b", "x < 1", "i <= f", "x == y", "s != s",
    "x > y", "x >= 1", "i in li", "s in dst", "b and b", "b or i > 1", "i if b else 2", "x[0]",
    "x[0, 1]", "x[:, 1:2]", "x[None]", "x[y]", "x[0, y]", "x[1:]", "x[::2]", "li[0]", "li[1:2]",
    "dst[s]", "s[0]", "s[1:]", "ti[0]", "x.relu()", "x.size(0)", "x.add(y, alpha=2)", "x.dtype",
    "x.device", "x.is_cuda", "li.append(1)", "int(x)", "int(f)", "float(i)", "bool(x)",
    "bool(i)", "bool(li)", "str(i)", "len(li)", "len(x)", "min(i, 1)", "max(lf)", "abs(f)",
    "abs(x)", "round(f)", "sum(li)", "sorted(li)", "ord(s)", "{s: x}", "[x, y]", "[1, 2.]",
    "(x, i)", "annotate(int, x)", "annotate(float, x)", "annotate(number, x)",
    "isinstance(a, int)", "isinstance(ot, Tensor)", "isinstance(i, int)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CASES)
def test_the_overload_is_the_one_that_torch_chooses(expression):
    text = method_text(PARAMETERS, f"return {expression}")
    expected = torch_functions_of(text)["__torch__.M.f"].graph
    assert calls_of(graph_of(text, "M.f")) == torch_calls_of(expected)


REFUSED = [
    "torch.add(x, s)", "torch.add(x)", "torch.add(x, y, z=1)", "torch.add(x, y, 1, 2, 3)",
    "torch.add(x, other=y, self=x)", "torch.sum(x, s)", "torch.relu(i)", "torch.append(li, s)",
    "torch.append(li, f)", "torch._set_item(dst, i, x)", "torch.zeros(s)", "torch.zeros(f)",
    "torch.cat(x)", "torch.cat([i])", "torch._unwrap_optional(None)", "torch.nothing(x)",
    "torch.conv2d(x, y, stride=s)", "torch.__getitem__(dst, i)", "torch.eq(x, None)",
    "torch.max(x, out=y)", "torch.view(x, dtype=6)", "ops.aten.relu(s)", "ops.nowhere.f(x)",
    "torch.full([2], s)", "torch.batch_norm(x, 1, 2, 3, 4, True, 0.1, 1., b)",
]  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_calls_that_no_overload_fits_are_refused_as_by_torch(expression):
    text = method_text(PARAMETERS, f"return {expression}")
    with pytest.raises(RuntimeError):
        torch_functions_of(text)
    with pytest.raises(UnknownOperatorError) as caught:
        graph_of(text, "M.f")
    line = text.splitlines().index(f"    return {expression}") + 1
    assert (caught.value.record, caught.value.line) == (RECORD, line)


def test_the_message_lists_the_candidates_and_why_each_fails():
    with pytest.raises(UnknownOperatorError) as caught:
        graph_of(method_text("x: Tensor", "return torch.relu(x, 1)"), "M.f")
    assert "no overload of aten::relu takes (Tensor, int)" in caught.value.message
    assert "aten::relu(Tensor self): takes 1 positional arguments, not 2" in caught.value.message


def test_an_unknown_operator_is_named():
    with pytest.raises(UnknownOperatorError, match="nowhere::f is not registered"):
        graph_of(method_text("x: Tensor", "return ops.nowhere.f(x)"), "M.f")


def graph_returning(expression):
    return graph_of(f"def f({PARAMETERS}):\n  return {expression}\n")


def test_inputs_match_the_schema_one_to_one():
    node = only(graph_returning("torch.conv2d(x, y, padding=[1, 1])"), "aten::conv2d")
    names = [argument.name for argument in node.schema.arguments]
    assert names == ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
    assert len(node.inputs) == len(names)
    assert constant_of(node.inputs[2]) is None
    assert constant_of(node.inputs[3]) == [1, 1]
    assert node.inputs[3].type == ListType(INT)
    assert node.inputs[4].node.kind == "prim::ListConstruct"
    assert constant_of(node.inputs[6]) == 1


def test_varargs_keep_all_inputs():
    node = only(graph_returning('torch.format("{} {}", 1, x)'), "aten::format")
    assert [value.type for value in node.inputs] == [STRING, INT, TENSOR]


def test_a_scalar_is_repeated_for_a_broadcasting_list():
    node = only(graph_returning("torch.max_pool2d(x, i)"), "aten::max_pool2d")
    made = node.inputs[1].node
    assert made.kind == "prim::ListConstruct"
    assert made.inputs[0] is made.inputs[1]


@pytest.mark.parametrize(
    ("expression", "kind", "type_"),
    [
        ("torch.dropout(x, y, b)", "aten::FloatImplicit", FLOAT),
        ("torch.select(x, y, 0)", "aten::IntImplicit", INT),
        ("torch.dropout(x, n, b)", "aten::Float", FLOAT),
        ("torch.select(x, b, 0)", "aten::Int", INT),
    ],
)
def test_implicit_conversions_are_nodes(expression, kind, type_):
    node = only(graph_returning(expression), kind)
    assert node.output.type == type_
    assert node.schema is not None


@pytest.mark.parametrize(
    ("expression", "value"), [("torch.mul(x, True)", 1), ("torch.dropout(x, True, b)", 1.0)]
)
def test_conversions_of_constants_are_constants(expression, value):
    node = graph_returning(expression).returns[0].node
    found = constant_of(node.inputs[1])
    assert found == value
    assert type(found) is type(value)


def test_type_variables_bind_to_the_arguments():
    assert graph_returning("torch.get(dst, s)").returns[0].type == OptionalType(TENSOR)
    assert graph_returning("torch._unwrap_optional(oi)").returns[0].type == INT
    assert graph_returning("torch.list(ls)").returns[0].type == ListType(STRING)


def test_blocked_overloads_exist():
    for name in BLOCKED:
        kind = name.partition(".")[0]
        schemas = map(str, torch._C._jit_get_schemas_for_operator(kind))
        assert any(parse_schema(text).full_name == name for text in schemas)


# Statements that torch's printer never writes, but its importer takes.
STATEMENTS = [
    "x += y\nreturn x",
    "x -= 1\nreturn x",
    "i += 2\nreturn i",
    "i **= 2\nreturn i",
    "f *= 2\nreturn f",
    "li += li\nreturn li",
    "s += s\nreturn s",
    "li[0] = i\nreturn li",
    "dst[s] = x\nreturn dst",
    "p = q = torch.relu(x)\nreturn (p, q)",
    "p, q = torch.relu(x), torch.neg(y)\nreturn (q, p)",
    "p, q = tt\nreturn torch.add(p, q)",
    "p: List[int] = []\np.append(i)\nreturn p",
    "p: float = 1.\np = 2.\nreturn p",
    "if i > 1 and b:\n  p = x\nelif b:\n  p = y\nelse:\n  p = x + y\nreturn p",
    "while i < 10 or b:\n  i = i + 1\nreturn i",
    "if isinstance(a, int):\n  p = a + 1\nelse:\n  p = 0\nreturn p",
    "if isinstance(a, (int, str)):\n  p = 1\nelse:\n  p = 0\nreturn p",
    "if isinstance(ot, Tensor):\n  p = torch.relu(ot)\nelse:\n  p = x\nreturn p",
    "if not isinstance(ot, Tensor):\n  p = x\nelse:\n  p = torch.relu(ot)\nreturn p",
    "if isinstance(x, Tensor):\n  p = torch.relu(x)\nelse:\n  p = torch.nothing(x)\nreturn p",
    "if ot is not None:\n  p = torch.relu(ot)\nelse:\n  p = x\nreturn p",
    "if oi is None:\n  p = 1\nelse:\n  p = oi + 1\nreturn p",
    "if x is None:\n  p = torch.nothing(x)\nelse:\n  p = x\nreturn p",
    "return torch.relu(ot) if ot is not None else x",
    "return ot is None or b",
    "return b and ot is not None",
    "if i:\n  p = 1\nelse:\n  p = 2\nreturn p",
    "if li:\n  p = 1\nelse:\n  p = 2\nreturn p",
    "if s:\n  p = 1\nelse:\n  p = 2\nreturn p",
    "return (1, 2, 3)[::2]",
    "return torch.wait(torch.jit.nothing) if False else x",
    "return li[1:2] + li[:1]",
    "return [x, y][0].relu()",
]


@pytest.mark.parametrize("body", STATEMENTS)
def test_statements_of_hand_written_code_compile_as_in_torch(body):
    text = method_text(PARAMETERS, body)
    expected = torch_functions_of(text)["__torch__.M.f"].graph
    assert calls_of(graph_of(text, "M.f")) == torch_calls_of(expected)


@pytest.mark.parametrize(
    ("declared", "expression"),
    [
        ("List[int]", "(1, 2)"),
        ("Tuple[float, int]", "(x, i)"),
        ("Tuple[float, Tuple[int, float]]", "(x, (x, f))"),
        ("Optional[List[float]]", "(f, f)"),
        ("float", "x"),
        ("complex", "x"),
        ("number", "b"),
        ("float", "n"),
        ("Device", "s"),
        ("List[Optional[int]]", "[1, None]"),
        ("Union[int, List[int]]", "[1, 2]"),
        ("Any", "x"),
    ],
)
def test_returned_values_are_converted_as_by_torch(declared, expression):
    text = method_text(PARAMETERS, f"return {expression}")
    text = text.replace("a: Any):", f"a: Any) -> {declared}:")
    expected = torch_functions_of(text)["__torch__.M.f"].graph
    assert calls_of(graph_of(text, "M.f")) == torch_calls_of(expected)


@pytest.mark.parametrize(
    ("declared", "expression"),
    [("float", "i"), ("Tensor", "None"), ("int", "f"), ("List[int]", "(1, 2.)"), ("str", "i")],
)
def test_what_cannot_be_returned_is_refused_as_by_torch(declared, expression):
    text = method_text(PARAMETERS, f"return {expression}")
    text = text.replace("a: Any):", f"a: Any) -> {declared}:")
    with pytest.raises(RuntimeError):
        torch_functions_of(text)
    with pytest.raises(SourceError, match="is returned where"):
        graph_of(text, "M.f")
