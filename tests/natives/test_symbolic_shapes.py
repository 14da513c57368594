"""Operators on numbers that torch.export leaves open."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

import tsarchive
from tests.support.archives import TORCH
from tests.support.both_engines import both_of
from tests.support.comparing import equal
from tsarchive.ir.types import FLOAT, INT, NUMBER
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.symbolic_shapes import SIZE_ARITHMETIC, SYMBOLIC, held_number, holding
from tsarchive.run.operators import operator_schemas

NUMBERS = (INT, FLOAT, NUMBER)
VALUES = (7, 5)


def schema_of(key):
    found = [s for s in operator_schemas(key.partition(".")[0]) if s.full_name == key]
    return found[0] if found else None


def on_numbers() -> list[str]:
    """Keys whose operator takes numbers only."""
    keys = []
    for key in SYMBOLIC:
        schema = schema_of(key)
        types = [argument.type for argument in schema.arguments] if schema else []
        if types and all(type_ in NUMBERS for type_ in types) and key in NATIVES:
            keys.append(key)
    return keys


def symbols(count: int) -> tuple[ShapeEnv, list[torch.SymInt]]:
    shapes = ShapeEnv()
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(VALUES))
    tensor = FakeTensorMode(shape_env=shapes).from_tensor(
        torch.empty(VALUES), symbolic_context=context
    )
    return shapes, [tensor.shape[i % len(VALUES)] for i in range(count)]


def as_declared(type_, value):
    return torch.sym_float(value) if type_ == FLOAT else value


def number(value):
    """The number that a symbol stands for in this trace."""
    if isinstance(value, tuple):
        return tuple(map(number, value))
    return value.node.hint if isinstance(value, torch.SymInt | torch.SymFloat) else value


def test_every_key_is_that_of_an_operator():
    assert all(schema_of(key) is not None for key in SYMBOLIC)
    assert len(on_numbers()) > 60


# These compare, so the symbols are fixed to one side of the comparison.
COMPARING = ("eq", "ne", "lt", "le", "gt", "ge", "__range_length")


@pytest.mark.parametrize("key", on_numbers())
def test_symbols_stay_open(key):
    schema = schema_of(key)
    types = [argument.type for argument in schema.arguments]
    if "NumToTensor" in key:
        pytest.skip("gives a tensor")
    shapes, given = symbols(len(types))
    result = SYMBOLIC[key](*map(as_declared, types, given))
    values = map(as_declared, types, itertools.islice(itertools.cycle(VALUES), len(types)))
    expected = NATIVES[key](*values)
    name = key.partition("::")[2].partition(".")[0]
    if name in COMPARING:
        assert bool(result) == bool(expected)
        return
    assert number(result) == pytest.approx(expected)
    assert not [guard for guard in shapes.guards if "Eq" in str(guard.expr)]


LARGE = (-(2**63), -7, -1, 0, 1, 5, 2**62, 2**63 - 1)


@pytest.mark.parametrize("key", on_numbers())
def test_numbers_give_what_the_natives_give(key):
    types = [argument.type for argument in schema_of(key).arguments]
    pools = [[float(v) for v in LARGE] if type_ == FLOAT else LARGE for type_ in types]
    for given in itertools.product(*pools):
        outcomes = []
        for table in (NATIVES, SYMBOLIC):
            try:
                outcomes.append(table[key](*given))
            except (tsarchive.ArchiveError, ArithmeticError, RuntimeError) as error:
                outcomes.append(type(error))
        assert equal(*outcomes) or repr(outcomes[0]) == repr(outcomes[1]), given


def test_numbers_go_along_with_tensors():
    seven = holding(torch.tensor(7), 7)
    two = holding(torch.tensor(2), 2)
    rows = {
        "aten::add.Tensor": ((seven, two), 9),
        "aten::sub.Scalar": ((seven, 3), 4),
        "aten::mul.Tensor": ((seven, two), 14),
        "aten::floor_divide": ((seven, two), 3),
        "aten::remainder.Scalar": ((seven, 4), 3),
        "aten::neg": ((seven,), -7),
        "aten::div.Tensor": ((seven, two), 3.5),
        "aten::to.dtype": ((seven, 6), 7.0),
    }
    for key, (arguments, expected) in rows.items():
        result = SIZE_ARITHMETIC[key](*arguments)
        assert held_number(result) == expected == result.item(), key
    for mode, expected in (("trunc", -3), ("floor", -4)):
        result = SIZE_ARITHMETIC["aten::div.Tensor_mode"](
            holding(torch.tensor(-7), -7), two, rounding_mode=mode
        )
        assert held_number(result) == expected == result.item()


def test_numbers_are_forgotten_when_a_tensor_is_written_to():
    for key, arguments in {
        "aten::add_.Scalar": (1,),
        "aten::copy_": (torch.tensor(3),),
        "aten::zero_": (),
    }.items():
        tensor = holding(torch.tensor(7), 7)
        SIZE_ARITHMETIC[key](tensor, *arguments)
        assert held_number(tensor) is None, key
    other = holding(torch.tensor(7), 7)
    other += 1
    assert held_number(other) is None
    assert held_number(torch.tensor(7)) is None
    assert held_number(SIZE_ARITHMETIC["aten::add.Tensor"](other, torch.tensor(7))) is None


class Sized(torch.nn.Module):
    """A trace of this computes with sizes as tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        half = torch.div(columns, 2, rounding_mode="floor")
        y = x.reshape(rows * 2, half)
        return y.view(rows, -1) + torch.arange(columns) * x.new_ones(rows, 1)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("way", ["export", "strict", "compile"])
def test_traced_sizes_stay_open(way):
    if TORCH < (2, 8) or (way != "export" and TORCH < (2, 10)):
        pytest.skip("torch 2.9 and before loses the sizes that tensors stand for")
    rows = torch.export.Dim("rows", min=2, max=64)
    x = torch.randn(3, 6)
    theirs, mine = both_of(torch.jit.trace(Sized(), (x,)))
    if way == "compile":
        torch._dynamo.reset()
        run = torch.compile(mine, backend="eager", fullgraph=True, dynamic=True)
    else:
        program = torch.export.export(
            mine, (x,), dynamic_shapes=({0: rows},), strict=way == "strict"
        )
        run = program.module()
    for count in (3, 8):
        x = torch.randn(count, 6)
        assert equal(run(x), theirs(x))


def strided_tensors():
    """Tensors of few sizes, dense and not, whose dimensions lie in memory in any order."""
    for size in itertools.product((0, 1, 3), repeat=4):
        for order in itertools.permutations(range(4)):
            strides, reach = [0] * 4, 1
            for dimension in order:
                strides[dimension] = reach
                reach *= max(size[dimension], 1)
            yield torch.empty(81).as_strided(size, strides)
        if 0 not in size:
            yield torch.empty(1).expand(size)
    yield from (torch.empty(2, 3), torch.empty(2, 3, 4, 5, 6, device="meta"))
    yield torch.empty(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize("format_", [0, 1, 2, 3])
def test_formats_of_memory_are_told_as_torch_tells_them(format_):
    key, expected = "aten::is_strides_like_format", torch.ops.aten.is_strides_like_format
    answers = {SYMBOLIC[key](tensor, format_) for tensor in strided_tensors()}
    assert answers == ({False, True} if format_ > 1 else {False})
    for tensor in strided_tensors():
        assert SYMBOLIC[key](tensor, format_) == expected(tensor, format_)


@pytest.mark.parametrize("kind", ["Tensor", "Scalar"])
def test_fused_additions_are_taken_apart(kind):
    """torch.export knows them, and programs of ExecuTorch do not."""
    x = torch.linspace(-2, 2, 9).reshape(3, 3)
    other = x.t().contiguous() if kind == "Tensor" else 0.5
    for suffix in ("", "_"):
        key = f"aten::_add_relu{suffix}.{kind}"
        overload = getattr(getattr(torch.ops.aten, f"_add_relu{suffix}"), kind)
        ours, theirs = x.clone(), x.clone()
        options = {"alpha": 3} if kind == "Tensor" else {}
        expected = overload(theirs, other, **options)
        assert torch.equal(SYMBOLIC[key](ours, other, **options), expected)
        assert torch.equal(ours, theirs)
