"""Comparisons name what changed in a program, where it is, and nothing that follows from it."""

from __future__ import annotations

import io
from collections import UserList
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.archives import loaded, records_of, saved, torch_saved
from tests.support.verifying import packed
from tsarchive.fingerprinting import readable_contents
from tsarchive.frontend.places import RecordPlaces
from tsarchive.ir.source_ranges import Range, Source, TaggedRange


def helper(x: Tensor, times: int) -> Tensor:
    return x * times


class Inner(nn.Module):
    __constants__ = ["limit"]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.scale = 0.5
        self.flag = True
        self.items = [1, 2]
        self.limit = 4

    def forward(self, x: Tensor, times: int = 2, name: str = "in") -> Tensor:
        total, last = x, x
        for index in range(times):
            if self.flag:
                first, second = torch.relu(x), torch.tanh(x)
            else:
                first, second = torch.sigmoid(x), x
            total, last = torch.sub(total, first), torch.add(last, second)
            x = torch.mul(first, second) + index
        return torch.div(total, last) * self.scale + self.limit

    @torch.jit.export
    def size(self) -> int:
        return len(self.items)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.names = {"a": 1}

    def forward(self, x: Tensor) -> Tensor:
        return helper(self.inner(x), 3) + torch.ones(3, dtype=torch.float32)


@cache
def net() -> bytes:
    torch.manual_seed(0)
    return torch_saved(torch.jit.script(Net()))


def edited(data: bytes, old: str, new: str) -> bytes:
    """Replace text in the one code record that has it, once."""
    records = records_of(data)
    names = [name for name in records if name.endswith(".py") and old in records[name].decode()]
    assert [records[name].decode().count(old) for name in names] == [1], (names, old)
    text = records[names[0]].decode().replace(old, new)
    return packed({**records, names[0]: text.encode()})


PARTS = ("code", "structure", "weights", "extra files")


def told(before, after, **options):
    sides = (io.BytesIO(each) if isinstance(each, bytes) else each for each in (before, after))
    report = tsarchive.diff(*sides, **options)
    return [(c.kind, c.where, c.before, c.after) for c in report.changes]


INNER = "inner.forward"
# Text of the program, text in its place, and the changes that are told.
EDITS = {
    "operator": (
        "torch.sigmoid(x", "torch.cosh(x",
        [("operator", INNER, "aten::sigmoid", "aten::cosh")],
    ),
    "operator of another number of arguments": (
        "torch.sigmoid(x0)", "torch.gelu(x0)",
        [("operator", INNER, "aten::sigmoid", "aten::gelu")],
    ),
    "operator that is one with another overload": (
        "(torch.mul(_3, scale), 4)", "(torch.mul(_3, scale), 4.5)",
        [("constant", INNER, 4, 4.5)],
    ),
    "default that the text omits": (
        "torch.mul(first, second), index)", "torch.mul(first, second), index, alpha=2)",
        [("constant", INNER, 1, 2)],
    ),
    "integer and float": ("_1 = _0((inner).forward(x, 2,", "_1 = _0((inner).forward(x, 5,",
        [("constant", "forward", 2, 5)]),
    "text": ('"in", ), 3, )', '"on", ), 3, )', [("constant", "forward", "in", "on")]),
    "constant of a function": (
        "return torch.mul(x, times)", "return torch.div(x, times)",
        [("operator", "__torch__.tests.diffing.test_programs.helper", "aten::mul", "aten::div")],
    ),
    "constant of a class": (
        "limit : Final[int] = 4", "limit : Final[int] = 5", [("constant", "inner.limit", 4, 5)],
    ),
    "default": ("times: int=2", "times: int=3", [("default", f"{INNER}(times)", 2, 3)]),
    "default that is a list": (
        "times: int) -> Tensor:\n  return torch.mul(x, times)",
        "times: int, sizes: List[int]=[1, 2]) -> Tensor:\n  return torch.mul(x, times)",
        [("signature", "__torch__.tests.diffing.test_programs.helper",
          "(x: Tensor, times: int) -> Tensor",
          "(x: Tensor, times: int, sizes: List[int]=[1, 2]) -> Tensor")],
    ),
    "no default": (
        ', "in", ), 3, )', ', "in", ), 3)', [],
    ),
    "name of an argument": (
        "times: int) -> Tensor:\n  return torch.mul(x, times)",
        "count: int) -> Tensor:\n  return torch.mul(x, count)",
        [("signature", "__torch__.tests.diffing.test_programs.helper",
          "(x: Tensor, times: int) -> Tensor", "(x: Tensor, count: int) -> Tensor")],
    ),
    "arguments that conditions give": (
        "torch.mul(first, second)", "torch.mul(second, first)",
        [("code", INNER, "x1 = torch.add(torch.mul(first, second), index)",
          "x1 = torch.add(torch.mul(second, first), index)")],
    ),
    "arguments that a loop carries": (
        "torch.div(total, last)", "torch.div(last, total)",
        [("code", INNER, "_3 = torch.div(total, last)", "_3 = torch.div(last, total)")],
    ),
    "values under the names of each other": (
        "total0 = torch.sub(total, first)\n      last0 = torch.add(last, second)",
        "last0 = torch.sub(total, first)\n      total0 = torch.add(last, second)",
        [("code", INNER, "total, last, x0 = total0, last0, x1",
          "total, last, x0 = total0, last0, x1")],
    ),
    "what a branch gives": (
        "torch.sigmoid(x0), x0\n", "torch.sigmoid(x0), x\n",
        [("code", INNER, "first, second = torch.sigmoid(x0), x0",
          "first, second = torch.sigmoid(x0), x")],
    ),
    "line added": (
        "    _3 = torch.div(total, last)\n",
        "    _4 = torch.neg(total)\n    _3 = torch.div(_4, last)\n",
        [("code", INNER, None, "_4 = torch.neg(total)")],
    ),
    "line removed": (
        "      x1 = torch.add(torch.mul(first, second), index)\n"
        "      total, last, x0 = total0, last0, x1",
        "      total, last = total0, last0",
        [("code", INNER, "x1 = torch.add(torch.mul(first, second), index)", None)],
    ),
    "result": (
        "    _2 = torch.add(_1, torch.ones([3], dtype=6))\n    return _2",
        "    _2 = torch.add(_1, torch.ones([3], dtype=6))\n    return _1",
        [("code", "forward", "return _2", "return _1")],
    ),
    "names of variables": (
        "    items = self.items\n    return torch.len(items)",
        "    things = self.items\n    return torch.len(things)", [],
    ),
    "another attribute": (
        "    scale = self.scale\n    return torch.add(torch.mul(_3, scale), 4)",
        "    scale = self.weight\n    return torch.add(torch.mul(_3, scale), 4)",
        [("code", INNER, "scale = self.scale", "scale = self.weight")],
    ),
    "method": (
        "  def size(self: __torch__.tests.diffing.test_programs.Inner) -> int:\n"
        "    items = self.items\n    return torch.len(items)\n", "",
        [("method", "inner.size", "(self) -> int", None)],
    ),
    "role": (
        '__parameters__ = ["weight", ]\n  __buffers__ = []',
        '__parameters__ = []\n  __buffers__ = ["weight", ]',
        [("attribute role", "inner.weight", "parameter", "buffer")],
    ),
    "type of an attribute": (
        "names : Dict[str, int]", "names : Dict[str, Optional[int]]",
        [("attribute type", "names", "Dict[str, int]", "Dict[str, Optional[int]]")],
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("name", EDITS)
def test_each_edit_of_code_is_one_change(name):
    old, new, expected = EDITS[name]
    assert told(net(), edited(net(), old, new)) == expected


def test_names_of_mangling_mean_nothing():
    torch.jit.script(nn.Sequential(Inner(), Inner()))
    assert told(net(), torch_saved(torch.jit.script(Net()))) == []


def test_equal_functions_are_one_whatever_their_classes_are_called():
    """A class that has another name is one change, and no type that names it."""
    old = "class Inner(Module)"
    records = records_of(edited(net(), old, old))
    renamed = {
        name: data.replace(b"test_programs.Inner", b"test_programs.Other").replace(
            b"class Inner(", b"class Other("
        )
        for name, data in records.items()
        if name.endswith((".py", "data.pkl"))
    }
    renamed["data.pkl"] = records["data.pkl"].replace(b"Inner\n", b"Other\n")
    names = (
        "__torch__.tests.diffing.test_programs.Inner",
        "__torch__.tests.diffing.test_programs.Other",
    )
    assert told(net(), packed({**records, **renamed})) == [("class", "inner", *names)]


def test_much_of_a_function_is_one_change():
    old = """        first, second = torch.relu(x0), torch.tanh(x0)
      else:
        first, second = torch.sigmoid(x0), x0
      total0 = torch.sub(total, first)
      last0 = torch.add(last, second)
      x1 = torch.add(torch.mul(first, second), index)
"""
    new = """        first, second = torch.cos(x0), torch.sin(x0)
      else:
        first, second = torch.exp(x0), x0
      total0 = torch.mul(total, first)
      last0 = torch.div(last, second)
      x1 = torch.sub(torch.atan2(first, second), index)
"""
    ((kind, where, before, after),) = told(net(), edited(net(), old, new))
    assert (kind, where) == ("code", "inner.forward")
    assert "torch.relu(x0)" in before
    assert "torch.atan2(first, second)" in after


HELPER = "__torch__.tests.diffing.test_programs.helper"
# Statements of a function before and after, where that is one change.
STATEMENTS = {
    "items of a dict": ('d = {"a": x, "b": y}', 'd = {"b": y, "a": x}'),
    "numbers of a dict": ('d = {"a": 1, "b": 2}', 'd = {"b": 2, "a": 1}'),
    "values of a dict": ('d = {"a": 1, "b": 2}', 'd = {"a": 2, "b": 1}'),
    "constants of a call": ("d = torch.sum(x, [1], True)", "d = torch.sum(y, [1], False)"),
    "constants that are swapped": ("d = torch.clamp(x, 1, 2)", "d = torch.clamp(x, 2, 1)"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_line_tells_its_constants_as_well(name):
    old = "  return torch.mul(x, times)"
    sides = [
        edited(net(), old, f"  y = torch.neg(x)\n  {statement}\n  return y")
        for statement in STATEMENTS[name]
    ]
    assert told(*sides) == [("code", HELPER, *STATEMENTS[name])]


class Scaled(nn.Module):
    __constants__ = ["scale", "shift"]  # noqa: RUF012

    def __init__(self, scale: float, shift: float) -> None:
        super().__init__()
        self.scale = scale
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.scale + self.scale
        x = x * self.scale - self.scale
        return torch.clamp(x, self.scale, self.shift) / self.scale


@pytest.mark.parametrize("values", [(3.0, 2.0), (2.0, 1.0)])
def test_a_constant_that_all_of_the_code_has_is_told_of_the_class_alone(values):
    sides = (torch.jit.script(Scaled(*each)) for each in ((1.0, 2.0), values))
    assert {where for _, where, _, _ in told(*sides)} <= {"scale", "shift"}


def test_operations_on_one_line_share_its_text():
    """A line may have thousands, and be as long."""
    with readable_contents(io.BytesIO(net()), debug=True) as readable:
        module = readable.contents.outline.modules["inner"]
        operations = module.definition.routines["forward"].body.operations
    (first, second) = (each.place for each in operations[-2:])
    assert first.line == second.line
    assert first.text is second.text


class Rows(UserList):
    """Rows of a debug record that say which of them are read, one by one."""

    def __init__(self, rows):
        super().__init__(rows)
        self.read = set()

    def __getitem__(self, place):
        assert isinstance(place, int)
        self.read.add(place)
        return super().__getitem__(place)


def test_a_place_on_a_long_line_reads_no_others():
    source = Source("x = 1", "a.py", 1)
    rows = Rows(TaggedRange(offset, Range(source, 0, 1)) for offset in range(100))
    places = RecordPlaces("code/a.py", lambda: "y" * 100, {"code/a.py": rows})
    assert places.range_at(1, 0) is not None  # which reads where each begins
    rows.read.clear()
    assert places.range_at(1, 50) == rows.data[50].range
    assert rows.read == {50}


def test_blocks_that_are_nested_deeply_are_compared():
    """What stands for a block does not grow with each one around it."""
    heads = [f"{'  ' * depth}if bool(x):" for depth in range(2, 42)]
    tails = [f"{'  ' * depth}else:\n{'  ' * (depth + 1)}y = x" for depth in range(41, 1, -1)]
    old = "  return torch.mul(x, times)"
    lines = [*heads, f"{'  ' * 42}y = torch.neg(x)", *tails, "    return torch.mul(y, times)"]
    text = "\n".join(lines).replace("\n  ", "\n")[2:]
    before = edited(net(), old, text)
    after = edited(before, "torch.neg(x)", "torch.cos(x)")
    where = "__torch__.tests.diffing.test_programs.helper"
    assert told(before, after) == [("operator", where, "aten::neg", "aten::cos")]


def test_values_of_attributes_are_written_as_a_person_writes_them():
    changed = Net()
    changed.names = {"a": 1, "b": 2}
    changed.inner.items = [1, 2, 3]
    changed.inner.scale = -0.0
    before = Net()
    before.inner.scale = 0.0
    assert told(torch.jit.script(before), torch.jit.script(changed)) == [
        ("attribute", "names", {"a": 1}, {"a": 1, "b": 2}),
        ("attribute", "inner.scale", 0.0, -0.0),
        ("attribute", "inner.items", [1, 2], [1, 2, 3]),
    ]


def test_a_tuple_is_no_list():
    before, after = Net(), Net()
    before.inner.items, after.inner.items = [1, 2], (1, 2)
    changes = told(torch.jit.script(before), torch.jit.script(after))
    assert ("attribute", "inner.items", [1, 2], (1, 2)) in changes


def test_lines_of_the_user_are_told():
    after = edited(net(), "torch.sigmoid(x", "torch.cosh(x")
    report = tsarchive.diff(io.BytesIO(net()), io.BytesIO(after))
    (change,) = report.changes
    (line,) = {*change.source}
    assert line is not None
    assert (line.file, line.text) == (__file__, "first, second = torch.sigmoid(x), x")


def test_functions_stand_side_by_side():
    after = edited(net(), "torch.sigmoid(x", "torch.cosh(x")
    (method,) = tsarchive.diff(io.BytesIO(net()), io.BytesIO(after)).methods
    assert method.where == "inner.forward"
    changed = [(row.before.strip(), row.after.strip()) for row in method.rows if not row.is_same]
    assert changed == [
        ("first, second = torch.sigmoid(x0), x0", "first, second = torch.cosh(x0), x0")
    ]
    assert len(method.rows) == 7  # with three lines before and behind


def test_operators_are_gained_and_lost():
    after = edited(net(), "torch.sigmoid(x0)", 'torch.from_file("/tmp/x")')
    report = tsarchive.diff(io.BytesIO(net()), io.BytesIO(after))
    (gained,), (lost,) = report.operators_gained, report.operators_lost
    assert (gained.operator, gained.where) == ("aten::from_file", "inner.forward")
    assert (gained.risk, gained.is_allowed) == ("files", False)
    assert (lost.operator, lost.risk, lost.is_allowed) == ("aten::sigmoid", "", True)


def test_parts_are_compared_alone():
    other = Net()
    with torch.no_grad():
        other.inner.weight[0] = 7
    other.inner.flag = False
    after = torch_saved(torch.jit.script(other))
    kinds = {only: [kind for kind, *_ in told(net(), after, only=[only])] for only in PARTS}
    assert kinds == {
        "code": [], "structure": ["attribute"], "weights": ["tensor values"], "extra files": [],
    }  # fmt: skip


def test_what_is_no_part_is_refused():
    with pytest.raises(tsarchive.CallError, match="'wights' is no part"):
        tsarchive.diff(io.BytesIO(net()), io.BytesIO(net()), only=["wights"])


@pytest.mark.parametrize("kind", [int, list])
def test_what_is_no_model_is_refused(kind):
    with pytest.raises(tsarchive.CallError):
        tsarchive.diff(kind(), io.BytesIO(net()))


def test_a_broken_file_is_told():
    with pytest.raises(tsarchive.ArchiveError):
        tsarchive.diff(io.BytesIO(net()), io.BytesIO(net()[:-100]))


@pytest.mark.sample(5)
def test_one_model_has_no_difference(case):
    module = case.build()
    data = torch_saved(module)
    forms = (module, saved(module, canonical=True), saved(loaded(data)))
    assert [told(data, form) for form in forms] == [[], [], []]


class Attribute(nn.Module):
    def __init__(self, value: object) -> None:
        super().__init__()
        if isinstance(value, Tensor):
            self.register_buffer("value", value)
        else:
            self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return x


ONE, TWO = torch.ones(1), torch.zeros(1)
# Values before and after, the parts whose fingerprints differ, and what is told of each alone.
OF_PARTS = {
    "dtype": (
        torch.zeros(4), torch.ones(4, dtype=torch.int64),
        {"structure": "tensor dtype", "weights": "tensor dtype"},
    ),
    "type and value": (1, 1.5, {"code": "attribute", "structure": "attribute"}),
    "order of keys": ({"p": ONE, "q": TWO}, {"q": TWO, "p": ONE}, {"structure": "order of keys"}),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_PARTS)
def test_each_part_whose_fingerprint_differs_has_a_change(name):
    *values, expected = OF_PARTS[name]
    sides = [torch_saved(torch.jit.script(Attribute(value))) for value in values]
    prints = [tsarchive.fingerprint(io.BytesIO(side)) for side in sides]
    for part in ("code", "structure", "weights"):
        changes = told(*sides, only=[part])
        assert {kind for kind, *_ in changes} == {*filter(None, [expected.get(part)])}, part
        own, other = (getattr(each, part) for each in prints)
        assert (own == other) == (changes == []), part
    assert all(where == "value" for _, where, *_ in told(*sides))


def test_only_restricts_all_of_the_report():
    after = edited(net(), "torch.sigmoid(x0)", "torch.cosh(x0)")
    report = tsarchive.diff(io.BytesIO(net()), io.BytesIO(after), only=["weights"])
    assert report.same
    assert not any((report.methods, report.operators_gained, report.operators_lost, report.packing))


class Block(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


def test_a_change_of_a_class_is_told_of_all_modules_that_have_it():
    before = torch_saved(torch.jit.script(nn.Sequential(Block(), Block(), Block())))
    after = edited(before, "torch.relu(x)", "torch.gelu(x)")
    (change,) = tsarchive.diff(io.BytesIO(before), io.BytesIO(after)).changes
    assert (change.where, change.also) == ("0.forward", ("1.forward", "2.forward"))


@pytest.mark.parametrize("places", [(0.1, 0.9), (0.4, 0.6)])
@pytest.mark.parametrize("extra", ["", "    x = torch.neg(x)\n"])
def test_changes_far_apart_in_repeated_code_are_told_one_by_one(places, extra):
    lines = ["    x = torch.mul(x, times)\n", "    x = torch.tanh(x)\n"] * 400
    texts = ["".join(lines)]
    for place in places:
        lines[int(place * 400) * 2] = "    x = torch.div(x, times)\n"
    lines[500] += extra
    texts.append("".join(lines))
    old = "  return torch.mul(x, times)"
    sides = [
        edited(net(), old, text[2:].replace("\n    ", "\n  ") + "  return x") for text in texts
    ]
    where = "__torch__.tests.diffing.test_programs.helper"
    replaced = [("operator", where, "aten::mul", "aten::div")] * 2
    added = [("code", where, None, extra.strip())] if extra else []
    assert sorted(told(*sides), key=str) == sorted(replaced + added, key=str)


def test_lines_that_name_what_did_not_change_are_context():
    """The compiler names a function that is called twice, and writes others where they are."""
    old = "    items = self.items\n    return torch.len(items)"
    called = "__torch__.tests.diffing.test_programs.helper"
    alone = f"    y = {called}(self.weight, 2, )\n{old}"
    twice = f"    _9 = {called}\n    y = _9(self.weight, 2, )\n    z = _9(y, 3, )\n{old}"
    sides = [io.BytesIO(edited(net(), old, text)) for text in (alone, twice)]
    (method,) = tsarchive.diff(*sides).methods
    changed = [(row.before, row.after) for row in method.rows if not row.is_same]
    assert changed == [(None, "    z = _9(y, 3, )")]


def test_extra_files_have_a_short_name():
    assert told(net(), net(), only=["extra"]) == []
