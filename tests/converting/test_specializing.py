"""Programs that are specialized to what the values of an example decide."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor

import tsarchive
from tests.support.both_engines import both_of
from tests.support.comparing import equal
from tsarchive import executorch_export, onnx_export
from tsarchive.onnx_export import OnnxFile


class Branch(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if bool(x.sum() > 0) else x - 1


class WhileLarge(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while float(x.abs().max()) > 0.1:
            x = x * 0.5
        return x


class Turns(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for turn in range(int(x.sum())):
            x = x + turn
        return x


class Sizes(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        places = (x > 0).nonzero()
        return x * 2 if places.size(0) > 1 else x + places.size(0)


class Scaled(torch.nn.Module):
    """A number out of a tensor that decides nothing."""

    def forward(self, x: Tensor) -> Tensor:
        most = float(x.max()) * 2 + 1
        return x / most if most > 0 else x


class Items(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        sizes: list[int] = x.to(torch.int64).tolist()
        return torch.ones(sizes)


class Alike(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if torch.equal(x, x.flip(0)) else x


class Found(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x.new_zeros(())
        for place in torch.where(x > 0)[0]:
            total = total + x[place]
        return total


class Results(torch.nn.Module):
    """Numbers among results, in lists, and in places where no number of tensors can stand."""

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        count = int(x.sum())
        known = [count, 3]
        y = torch.ones([count, 2]) + float(2 in known) + sorted(known)[0]
        return y.reshape(known[0], -1), count * 2 if count + 3 > 4 else -count


class KeepsCount(torch.nn.Module):
    """A buffer that the call writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x + self.calls if bool(x.sum() > 0) else x


# The module, its example, an input that is decided alike, and one that is not.
CASES = {
    "branch": (Branch, [1.0, 1.0], [3.0, -1.0], [-1.0, -1.0]),
    "other branch": (Branch, [-1.0, -1.0], [-3.0, 1.0], [1.0, 1.0]),
    "while": (WhileLarge, [1.0, -0.5], [0.99, 0.2], [2.5, 0.0]),
    "turns": (Turns, [1.0, 2.5], [2.0, 1.9], [1.0, 1.0]),
    "sizes": (Sizes, [1.0, 2.0, -1.0], [-1.0, 3.0, 1.0], [1.0, 1.0, 1.0]),
    "one found": (Sizes, [-1.0, 2.0, -1.0], [-1.0, -3.0, 1.0], [1.0, 1.0, 1.0]),
    "none found": (Sizes, [-1.0, -2.0], [-1.0, -3.0], [1.0, 1.0]),
    "scaled": (Scaled, [1.0, 2.0], [5.0, 3.0], [-1.0, -2.0]),
    "items": (Items, [2.0, 3.0], [2.5, 3.5], [3.0, 2.0]),
    "alike": (Alike, [1.0, 2.0, 1.0], [3.0, 0.0, 3.0], [1.0, 2.0, 2.0]),
    "not alike": (Alike, [1.0, 2.0, 3.0], [3.0, 0.0, 2.0], [1.0, 2.0, 1.0]),
    "found": (Found, [1.0, -2.0, 3.0], [4.0, 5.0, -6.0], [1.0, -1.0, -1.0]),
    "results": (Results, [1.0, 1.5], [2.0, 0.5], [2.0, 2.0]),
    "buffer": (KeepsCount, [1.0], [2.0], [-1.0]),
}


def read_back(program):
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    return torch.export.load(stream)


@pytest.mark.parametrize("name", CASES)
def test_decisions_are_asserted(name):
    make, example, alike, other = CASES[name]
    theirs, mine = both_of(torch.jit.script(make()))
    notes = []
    program = tsarchive.to_exported_program(
        mine, (torch.tensor(example),), specialize=True, told=notes.append
    )
    assert notes
    assert all(note.kind == "decision" and note.is_checked for note in notes)
    for run in (program.module(), read_back(program).module()):
        expected = theirs(torch.tensor(example)) if name != "buffer" else torch.tensor([2.0])
        torch.testing.assert_close(run(torch.tensor(example)), expected)
        with pytest.raises(RuntimeError, match=r"specialized|assertion"):
            run(torch.tensor(other))
    if name != "buffer":
        torch.testing.assert_close(
            program.module()(torch.tensor(alike)), theirs(torch.tensor(alike))
        )


def test_the_module_is_left_as_it_was():
    _, mine = both_of(torch.jit.script(KeepsCount()))
    x = torch.ones(1)
    state = torch.get_rng_state()
    tsarchive.to_exported_program(mine, (x,), specialize=True)
    assert equal(mine.calls, torch.zeros(()))
    assert equal(x, torch.ones(1))
    assert equal(torch.get_rng_state(), state)


class Misfits(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if bool(x.sum() > 0) else x.argmax()


def test_refusals_name_the_line_and_the_way(capfd):
    _, mine = both_of(torch.jit.script(Misfits()))
    with pytest.raises(tsarchive.UnsupportedError, match=r"test_specializing\.py:") as info:
        tsarchive.to_exported_program(mine, (torch.ones(2),))
    assert "specialize" in str(info.value)
    assert "def forward" not in "".join(capfd.readouterr())


def test_notes_name_the_line():
    _, mine = both_of(torch.jit.script(Branch()))
    notes = []
    tsarchive.to_exported_program(mine, (torch.ones(2),), specialize=True, told=notes.append)
    (note,) = notes
    assert "bool(x.sum() > 0)" in note.place
    assert "aten::Bool.Tensor gave True" in note.text


@pytest.fixture
def writes_nothing(monkeypatch):
    """The packages of other runtimes are not asked: what is told does not depend on them."""
    monkeypatch.setattr(onnx_export, "write", lambda *_, **__: OnnxFile(20, False, (), ()))
    monkeypatch.setattr(executorch_export, "write", lambda *_, **__: False)
    monkeypatch.setattr(executorch_export, "check", lambda *_: ())


@pytest.mark.parametrize("source", ["archive", "program"])
@pytest.mark.parametrize("suffix", [".onnx", ".pte"])
def test_what_other_runtimes_do_not_assert_is_told(suffix, source, tmp_path, writes_nothing):
    path, dst = tmp_path / "branch.pt", tmp_path / f"branch{suffix}"
    tsarchive.save(torch.jit.script(Branch()), path)
    dst.touch()
    call = {"args": (torch.ones(2),), "specialize": True}
    if source == "program":
        tsarchive.convert(path, tmp_path / "branch.pt2", **call)
        path, call = tmp_path / "branch.pt2", {}
    decision, warning = tsarchive.convert(path, dst, **call).notes
    assert (decision.kind, decision.is_checked) == ("decision", False)
    assert "aten::Bool.Tensor gave True" in decision.text
    assert decision.text.startswith("the program asserts") == (source == "program")
    assert (warning.kind, warning.is_checked) == ("file", False)
    assert "wrong results" in warning.text


class Arithmetic(torch.nn.Module):
    """Numbers of both kinds beside a tensor."""

    def forward(self, x: Tensor, given: Tensor) -> list[Tensor]:
        whole, real = int(given[0]), float(given[1])
        found = [x + whole, x * whole, x / whole, x + real, x * real, x / real]
        if x.dtype != torch.bool:  # of which torch subtracts nothing
            found += [x - whole, x - real]
        return found


@pytest.fixture(scope="module")
def arithmetic():
    return both_of(torch.jit.script(Arithmetic()))


@pytest.mark.parametrize("sizes", [(), (2, 3)], ids=str)
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int32, torch.float16, torch.float32, torch.complex64], ids=str
)
def test_a_number_beside_a_tensor_does_not_decide_the_type(arithmetic, dtype, sizes):
    theirs, mine = arithmetic
    x = torch.full(sizes, 3).to(dtype)
    example, other = torch.tensor([2.0, 0.3]), torch.tensor([5.0, 1.7])
    run = tsarchive.to_exported_program(mine, (x, example), specialize=True).module()
    for given in (example, other):
        for found, expected in zip(run(x, given), theirs(x, given), strict=True):
            assert found.dtype is expected.dtype
            assert equal(found, expected)


class Rounded(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + int(x[0])


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 1e30])
def test_what_no_int_can_be_is_refused(value):
    theirs, mine = both_of(torch.jit.script(Rounded()))
    run = tsarchive.to_exported_program(mine, (torch.ones(2),), specialize=True).module()
    assert equal(run(torch.tensor([3.5, 1.0])), theirs(torch.tensor([3.5, 1.0])))
    with pytest.raises(RuntimeError, match="64 bits"):
        run(torch.tensor([value, 1.0]))


class Exceeds(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if int(x[0]) > 16777216.0 else x


def test_ints_and_floats_are_compared_with_all_their_digits():
    theirs, mine = both_of(torch.jit.script(Exceeds()))
    x = torch.tensor([2**24 + 1])
    run = tsarchive.to_exported_program(mine, (x,), specialize=True).module()
    assert equal(run(x), theirs(x))


class Constants(torch.nn.Module):
    def forward(self, x: Tensor, n: int, name: str, flag: bool, extra: Tensor | None) -> Tensor:
        y = x * n + len(name) if flag else x
        return y if extra is None else y + extra


def test_constant_arguments_are_told():
    _, mine = both_of(torch.jit.script(Constants()))
    notes = []
    given = (torch.ones(2), 3, "abc", True, None)
    program = tsarchive.to_exported_program(mine, given, told=notes.append)
    told = {note.text: note.is_checked for note in notes}
    checked = {"n is 3": True, "name is 'abc'": True, "flag is True": True}
    assert told == {**checked, "extra is None, and any other value is taken as None": False}
    run = program.module()
    assert equal(run(*given), mine(*given))
    for position, other in ((1, 4), (2, "abcd"), (3, False)):
        with pytest.raises(AssertionError, match="Guard failed"):
            run(*given[:position], other, *given[position + 1 :])


class Counter(torch.nn.Module):
    """Attributes that calls assign, assign their own value, write in place, or append to."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "same", "written"):
            self.register_buffer(name, torch.zeros(2))
        self.calls = 0
        self.mode = "mean"
        self.sizes = [1]

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + x
        self.same = self.same
        self.written.add_(x)
        self.mode = "mean"
        self.calls += 1
        self.sizes.append(x.size(0))
        return self.total + self.written


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counter()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 2


@pytest.mark.parametrize("specialize", [False, True])
def test_attributes_that_calls_assign_are_told(specialize):
    _, mine = both_of(torch.jit.script(Outer()))
    notes = []
    tsarchive.to_exported_program(mine, (torch.ones(2),), specialize=specialize, told=notes.append)
    assert {(note.kind, note.is_checked) for note in notes} == {("state", False)}
    assert {note.text.split()[2].strip(",") for note in notes} == {
        "inner.total", "inner.calls", "inner.sizes",
    }  # fmt: skip
    assert (mine.inner.calls, mine.inner.total.tolist()) == (0, [0.0, 0.0])


class Draws(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clone().random_(2, 5)


def test_draws_from_a_lower_bound():
    theirs, mine = both_of(torch.jit.script(Draws()))
    x = torch.zeros(50)
    run = tsarchive.to_exported_program(mine, (x,)).module()
    torch.manual_seed(0)
    expected = theirs(x)
    torch.manual_seed(0)
    assert equal(run(x), expected)


def test_what_torch_cannot_run_is_refused():
    _, mine = both_of(torch.jit.script(Constants()))
    given = (torch.ones(2), 3, "a'\nb", True, None)
    with pytest.raises(tsarchive.UnsupportedError, match="cannot run"):
        tsarchive.to_exported_program(mine, given)
