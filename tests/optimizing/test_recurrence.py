"""Recurrent layers that code writes out, in the many ways in which people write them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import profile

import tsarchive
from tsarchive.optimizing.cells import GRU, LSTM, RELU, TANH, Cell

from .test_optimize import check, done, left

INPUT, WIDTH = 5, 3


class Step(nn.Module):
    """A cell that is written in some way; the first of its states is its result."""

    states = 1

    def start(self, x: Tensor) -> list[Tensor]:
        return [torch.zeros(x.size(0), 3)] * self.states


class Joined(Step):
    """An LSTM of one product for all gates, cut up."""

    states = 2

    def __init__(self):
        super().__init__()
        self.read, self.keep = nn.Linear(INPUT, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH, bias=False)

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        a, b, c, d = (self.keep(state[0]) + self.read(x)).chunk(4, 1)
        cell = torch.tanh(c) * torch.sigmoid(a) + state[1] * torch.sigmoid(b)
        return [torch.sigmoid(d) * torch.tanh(cell), cell]


class Sliced(Joined):
    """Its gates in another order, cut out by slices."""

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        gates = self.read(x) + self.keep(state[0])
        forget = torch.sigmoid(gates[:, :3] + 1.0)
        write, show = gates[:, 3:6].sigmoid(), gates[:, 9:].sigmoid()
        cell = forget * state[1] + write * gates[:, 6:9].tanh()
        return [show * cell.tanh(), cell]


class Products(Step):
    """An LSTM of products with plain parameters, as in the benchmarks of torch."""

    states = 2

    def __init__(self):
        super().__init__()
        self.read = nn.Parameter(torch.randn(4 * WIDTH, INPUT))
        self.keep = nn.Parameter(torch.randn(WIDTH, 4 * WIDTH))
        self.one, self.two = (nn.Parameter(torch.randn(4 * WIDTH)) for _ in range(2))

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        gates = torch.mm(x, self.read.t()) + self.one + state[0] @ self.keep + self.two
        a, b, c, d = gates.split(3, -1)
        cell = torch.sigmoid(a) * state[1] + torch.sigmoid(b) * torch.tanh(d)
        return [torch.sigmoid(c) * torch.tanh(cell), cell]


class Gates(Step):
    """An LSTM with a layer for each gate, of input and state side by side."""

    states = 2

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three, self.four = (
            nn.Linear(INPUT + WIDTH, WIDTH) for _ in range(4)
        )

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        both = torch.cat([state[0], x], 1)
        cell = state[1] * self.one(both).sigmoid() + self.two(both).sigmoid() * torch.tanh(
            self.three(both)
        )
        return [torch.tanh(cell) * self.four(both).sigmoid(), cell]


class Gated(Step):
    """A GRU as torch has it."""

    def __init__(self):
        super().__init__()
        self.read, self.keep = nn.Linear(INPUT, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        a, b, c = self.read(x).chunk(3, 1)
        d, e, f = self.keep(state[0]).chunk(3, 1)
        reset, update = torch.sigmoid(a + d), torch.sigmoid(b + e)
        new = torch.tanh(c + reset * f)
        return [new + update * (state[0] - new)]


class Mixed(Gated):
    """The mean of state and new value as people write it."""

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        a, b, c = self.read(x).chunk(3, 1)
        d, e, f = self.keep(state[0]).chunk(3, 1)
        update, reset = torch.sigmoid(a + d), torch.sigmoid(b + e)
        new = torch.tanh(f * reset + c)
        return [(1 - update) * new + update * state[0]]


class Turned(Step):
    """A GRU whose gate is that of the new value, with a layer for each product."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(INPUT, WIDTH) for _ in range(3))
        self.four, self.five, self.six = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        hidden = state[0]
        update = torch.sigmoid(self.one(x) + self.four(hidden))
        reset = torch.sigmoid(self.five(hidden) + self.two(x))
        new = torch.tanh(self.three(x) + reset * self.six(hidden))
        return [update * new + (1.0 - update) * hidden]


class Towards(Turned):
    """The state goes some way to the new value."""

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        hidden = state[0]
        update = torch.sigmoid(self.one(x) + self.four(hidden))
        reset = torch.sigmoid(self.five(hidden) + self.two(x))
        new = torch.tanh(self.three(x) + reset * self.six(hidden))
        return [hidden + update * (new - hidden)]


class ResetFirst(Turned):
    """The GRU of the first paper, which resets the state before the product: torch has none."""

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        hidden = state[0]
        update = torch.sigmoid(self.one(x) + self.four(hidden))
        reset = torch.sigmoid(self.five(hidden) + self.two(x))
        new = torch.tanh(self.three(x) + self.six(reset * hidden))
        return [update * new + (1.0 - update) * hidden]


class Peephole(Joined):
    """An LSTM whose gates see the cell: torch has none."""

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        a, b, c, d = (self.keep(state[0]) + self.read(x)).chunk(4, 1)
        cell = torch.tanh(c) * torch.sigmoid(a + state[1]) + state[1] * torch.sigmoid(b)
        return [torch.sigmoid(d) * torch.tanh(cell), cell]


class Coupled(Joined):
    """One gate for two: torch can do this, with the same rows twice."""

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        a, _, c, d = (self.keep(state[0]) + self.read(x)).chunk(4, 1)
        write = torch.sigmoid(a)
        cell = torch.tanh(c) * write + state[1] * write
        return [torch.sigmoid(d) * torch.tanh(cell), cell]


class Simple(Step):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(INPUT + WIDTH, WIDTH)

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [torch.tanh(self.layer(torch.cat((x, state[0]), 1)))]


class Rectified(Step):
    def __init__(self):
        super().__init__()
        self.read, self.keep = nn.Linear(INPUT, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [(self.read(x) + self.keep(state[0])).relu()]


class Own(Step):
    """Cells of torch itself."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(INPUT, WIDTH)

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [self.cell(x, state[0])]


class OwnLong(Own):
    states = 2

    def forward(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        hidden, cell = self.cell(x, (state[0], state[1]))
        return [hidden, cell]


CELLS = {
    "joined": (Joined, "LSTM"), "sliced": (Sliced, "LSTM"), "products": (Products, "LSTM"),
    "gates": (Gates, "LSTM"), "coupled": (Coupled, "LSTM"), "gated": (Gated, "GRU"),
    "mixed": (Mixed, "GRU"), "turned": (Turned, "GRU"), "towards": (Towards, "GRU"),
    "simple": (Simple, "tanh RNN"), "rectified": (Rectified, "relu RNN"),
    "LSTMCell": (lambda: OwnLong(nn.LSTMCell), "LSTM"), "GRUCell": (lambda: Own(nn.GRUCell), "GRU"),
    "RNNCell": (lambda: Own(nn.RNNCell), "tanh RNN"),
    "reset first": (ResetFirst, None), "peephole": (Peephole, None),
}  # fmt: skip

FEWEST = {
    name: kind.fewest
    for name, kind in {"products": LSTM, "gated": GRU, "simple": TANH, "rectified": RELU}.items()
}
"""Cells of each kind, with the fewest steps that are one layer."""


OPERATORS = {"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"}


def layers_run(module, *calls):
    """How many operators for whole sequences run."""
    with torch.no_grad(), profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        for call in calls:
            module(call)
    return sum(event.name in OPERATORS for event in found.events())


class Layer(nn.Module):
    """A loop of a cell. What it reads and gives depends on ``style``."""

    def __init__(self, step, style):
        super().__init__()
        self.step, self.style = step, style

    def forward(self, x: Tensor):
        dim = 0 if self.style == "first" else 1
        state = self.step.start(x.select(dim, 0))
        outputs: list[Tensor] = []
        for place in range(x.size(dim)):
            state = self.step(x.select(dim, place), state)
            outputs.append(state[0])
        if self.style == "last":
            return state
        if self.style == "each":
            return [output.sum(1) for output in outputs], state
        return torch.stack(outputs, dim), state


STYLES = ("first", "second", "last", "each")


def example_of(style):
    return torch.randn(6, 2, INPUT) if style == "first" else torch.randn(2, 6, INPUT)


@pytest.mark.sample(12)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", CELLS)
def test_steps_of_a_trace(name, style):
    torch.manual_seed(0)
    make, kind = CELLS[name]
    x = example_of(style)
    module = torch.jit.trace(Layer(make(), style).eval(), x)
    optimized = tsarchive.optimize(module)
    found = [what for what in done(optimized) if what.startswith("steps")]
    assert found == ([] if kind is None else [f"steps of {kind} as one layer"])
    shorter, longer = x[:3, :3], torch.cat([x, x], 0 if style == "first" else 1)
    wider = torch.cat([x, x], 1 if style == "first" else 0)
    check(module, optimized, (x,), (shorter,), (longer,), (wider,), (x[0],), (x.double(),))


class Loop(nn.Module):
    """A loop that carries one state."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x: Tensor):
        hidden = torch.zeros(x.size(0), 3)
        outputs: list[Tensor] = []
        for place in range(x.size(1)):
            hidden = self.step(x[:, place], [hidden])[0]
            outputs.append(hidden)
        return torch.stack(outputs, 1), hidden


class Backwards(Loop):
    """A loop that reads from the end, which no layer of one direction does."""

    def forward(self, x: Tensor):
        hidden = torch.zeros(x.size(0), 3)
        outputs: list[Tensor] = []
        for place in range(x.size(1)):
            hidden = self.step(x[:, x.size(1) - 1 - place], [hidden])[0]
            outputs.append(hidden)
        return torch.stack(outputs, 1), hidden


class Tupled(Loop):
    """A loop over the items of a list that carries a tuple, and keeps no results."""

    def forward(self, x: Tensor):
        state = (torch.zeros(x.size(0), 3), torch.zeros(x.size(0), 3))
        for item in x.unbind(1):
            hidden, cell = self.step(item, [state[0], state[1]])
            state = (hidden, cell)
        return state


class Long(Loop):
    """A loop that carries two."""

    def forward(self, x: Tensor):
        hidden, cell = torch.zeros(x.size(0), 3), torch.zeros(x.size(0), 3)
        outputs: list[Tensor] = []
        for place in range(x.size(1)):
            hidden, cell = self.step(x[:, place], [hidden, cell])
            outputs.append(hidden)
        return torch.stack(outputs, 1), hidden, cell


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", CELLS)
def test_loops_of_scripts(name, each_way_pays):
    torch.manual_seed(0)
    make, kind = CELLS[name]
    step, x = make(), torch.randn(2, 6, INPUT)
    module = torch.jit.script((Long if step.states > 1 else Loop)(step).eval())
    optimized = tsarchive.optimize(module, args=x)
    found = [what for what in done(optimized) if what.startswith("loop")]
    assert found == ([] if kind is None else [f"loop of {kind} as one layer"])
    check(module, optimized, (x,), (torch.randn(3, 2, 5),), (torch.randn(3, 0, 5),), (x[0],))


@pytest.mark.sample(4)
@pytest.mark.parametrize("has_example", [False, True])
@pytest.mark.parametrize("name", FEWEST)
def test_loops_of_every_length_run_the_layer(name, has_example, each_way_pays):
    """From the fewest items on that the layer is for."""
    step = CELLS[name][0]()
    module = torch.jit.script((Long if step.states > 1 else Loop)(step).eval())
    example = torch.randn(2, 6, INPUT) if has_example else None
    optimized = tsarchive.optimize(module, args=example)
    fewest = FEWEST[name]
    calls = [torch.randn(*sizes, INPUT) for sizes in ((2, fewest), (3, 7), (1, 9), (0, fewest + 1))]
    assert layers_run(optimized, *calls) == len(calls)
    short = [torch.randn(*sizes, INPUT) for sizes in ((2, 1), (3, 2), (1, fewest - 1), (0, 1))]
    assert layers_run(optimized, *short) == 0
    check(module, optimized, *((x,) for x in (*calls, *short)))


@pytest.mark.parametrize("name", ["gated", "simple"])
@pytest.mark.parametrize("missing", [1, 2])
def test_short_examples_leave_the_layer_to_longer_calls(name, missing, each_way_pays):
    fewest = FEWEST[name]
    module = torch.jit.script(Loop(CELLS[name][0]()).eval())
    x, longer = (torch.randn(2, length, INPUT) for length in (fewest - missing, fewest))
    optimized = tsarchive.optimize(module, args=x)
    assert (layers_run(optimized, x), layers_run(optimized, longer)) == (0, 1)
    check(module, optimized, (x,), (longer,))


class Last(Loop):
    """A loop that gives its state alone, also where there is nothing to read."""

    def forward(self, x: Tensor, hidden: Tensor):
        for place in range(x.size(0)):
            hidden = self.step(x[place], [hidden])[0]
        return hidden


@pytest.mark.parametrize("sizes", [(0,), (0, 2), (0, 2, INPUT), (6, 2, INPUT), (2, INPUT)])
def test_sequences_of_any_rank_may_be_empty(sizes):
    module = torch.jit.script(Last(Gated()).eval())
    optimized = tsarchive.optimize(module)
    assert "loop of GRU as one layer" in done(optimized)
    check(module, optimized, (torch.randn(sizes), torch.randn(2, 3)))


class Headed(Loop):
    """A recurrent layer behind a convolution with its normalization."""

    def __init__(self, step):
        super().__init__(step)
        self.layer, self.norm = nn.Conv1d(INPUT, INPUT, 1), nn.BatchNorm1d(INPUT)

    def forward(self, x: Tensor):
        x = self.norm(self.layer(x.transpose(1, 2))).transpose(1, 2)
        hidden = torch.zeros(x.size(0), 3)
        for place in range(x.size(1)):
            hidden = self.step(x[:, place], [hidden])[0]
        return hidden


@pytest.mark.parametrize("step", [Gated, lambda: Own(nn.GRUCell)])
def test_layers_whose_results_are_not_equal_are_left(step, each_way_pays, monkeypatch):
    """All else is done."""
    module, x = torch.jit.script(Headed(step()).eval()), torch.randn(2, 6, INPUT)
    right = Cell.weights.fget
    monkeypatch.setattr(Cell, "weights", property(lambda cell: [-each for each in right(cell)]))
    optimized = tsarchive.optimize(module, args=x)
    assert done(optimized)["batch normalization"] == 1
    assert not [what for what in done(optimized) if "as one layer" in what]
    if step is Gated:
        assert left(optimized)["loop of GRU as one layer: results are not equal"] == 1
    check(module, optimized, (x,), (torch.randn(3, 2, INPUT),))


class Unpacked(Loop):
    """Steps over all items of a sequence, whose number the code tells."""

    def forward(self, x: Tensor):
        a, b, c, d, e, f = x.unbind(1)
        hidden = self.step(b, self.step(a, [torch.zeros(x.size(0), 3)]))
        return self.step(f, self.step(e, self.step(d, self.step(c, hidden))))[0]


class FromTheEnd(Loop):
    """Steps over items that are counted from the end, and go on at the start."""

    def forward(self, x: Tensor):
        hidden = torch.zeros(x.size(0), 3)
        for place in (-5, -4, -3, -2, -1, 0):
            hidden = self.step(x[:, place], [hidden])[0]
        return hidden


@pytest.mark.parametrize(("make", "count"), [(Unpacked, 1), (FromTheEnd, 0)])
def test_lengths_that_steps_are_for(make, count):
    x = torch.randn(2, 6, INPUT)
    module = torch.jit.trace(make(Gated()).eval(), x)
    optimized = tsarchive.optimize(module)
    assert layers_run(optimized, x) == count
    check(module, optimized, *((torch.randn(2, length, INPUT),) for length in (2, 5, 6, 7)))


class Counted(Loop):
    """Steps over the first items of a sequence."""

    def __init__(self, step, count):
        super().__init__(step)
        self.count = count

    def forward(self, x: Tensor):
        hidden = torch.zeros(x.size(0), 3)
        for place in range(self.count):
            hidden = self.step(x[:, place], [hidden])[0]
        return hidden


class CountedLong(Counted):
    def forward(self, x: Tensor):
        hidden, cell = torch.zeros(x.size(0), 3), torch.zeros(x.size(0), 3)
        for place in range(self.count):
            hidden, cell = self.step(x[:, place], [hidden, cell])
        return hidden, cell


@pytest.mark.sample(4)
@pytest.mark.parametrize("is_enough", [False, True])
@pytest.mark.parametrize("make", [torch.jit.script, torch.jit.trace])
@pytest.mark.parametrize("name", FEWEST)
def test_too_few_steps_for_a_layer_to_gain(name, make, is_enough):
    torch.manual_seed(0)
    step, count = CELLS[name][0](), FEWEST[name] - (not is_enough)
    x, short = torch.randn(2, 6, INPUT), torch.randn(2, count - 1, INPUT)
    live = (CountedLong if step.states > 1 else Counted)(step, count).eval()
    module = make(live) if make is torch.jit.script else make(live, x)
    optimized = tsarchive.optimize(module)
    assert layers_run(optimized, x) == is_enough
    check(module, optimized, (x,), (short,), (x[:, :count],))


class Appending(nn.Module):
    """A loop in another, whose results are appended to a list of one of them."""

    def __init__(self, has_own):
        super().__init__()
        self.step, self.has_own = Gated(), has_own

    def forward(self, x: Tensor, rounds: int):
        outputs: list[Tensor] = []
        result = x
        for _ in range(rounds):
            if self.has_own:
                outputs = []
            hidden = torch.zeros(x.size(0), 3)
            for place in range(x.size(1)):
                hidden = self.step(x[:, place], [hidden])[0]
                outputs.append(hidden)
            result = torch.stack(outputs, 1)
        return result


@pytest.mark.parametrize("has_own", [False, True])
def test_lists_from_outside_the_loop_keep_what_they_have(has_own):
    module, x = torch.jit.script(Appending(has_own).eval()), torch.randn(2, 6, INPUT)
    optimized = tsarchive.optimize(module)
    assert ("loop of GRU as one layer" in done(optimized)) is has_own
    check(module, optimized, *((x, rounds) for rounds in range(4)))


@pytest.mark.parametrize(
    ("make", "step", "kind"),
    [(Backwards, Gated, None), (Tupled, Joined, "LSTM"), (Tupled, Products, "LSTM")],
)
def test_loops_in_other_ways(make, step, kind):
    torch.manual_seed(0)
    module, x = torch.jit.script(make(step()).eval()), torch.randn(2, 6, INPUT)
    optimized = tsarchive.optimize(module)
    found = [what for what in done(optimized) if what.startswith("loop")]
    assert found == ([] if kind is None else [f"loop of {kind} as one layer"])
    check(module, optimized, (x,), (torch.randn(3, 2, 5),), (torch.randn(3, 0, 5),))


class Given(nn.Module):
    """A cell over a list of items, from a state that the caller gives; what it changes is seen."""

    def __init__(self, changes):
        super().__init__()
        self.step, self.changes = Gated(), changes

    def forward(self, x: Tensor, state: Tensor):
        hidden = state[0]
        kept = []
        for place, item in enumerate(x.unbind(0)):
            hidden = self.step(item, [hidden])[0]
            if self.changes == "between" and place == 5:
                hidden.mul_(2.0)
            kept.append(hidden)
        if self.changes == "after":
            hidden.add_(1.0)
        if self.changes == "sequence":
            x.mul_(2.0)
        return torch.stack(kept), hidden, x


@pytest.mark.parametrize("changes", ["nothing", "between", "after", "sequence"])
def test_what_is_written_to_stays(changes):
    torch.manual_seed(0)
    live, x, state = Given(changes).eval(), torch.randn(12, 2, INPUT), torch.randn(1, 2, 3)
    module = torch.jit.trace(live, (x.clone(), state), check_trace=False)
    optimized = tsarchive.optimize(module)
    assert ("steps of GRU as one layer" in done(optimized)) is (changes == "nothing")
    longer, single = torch.randn(13, 2, INPUT), torch.randn(12, 1, INPUT)
    check(module, optimized, (x, state), (longer, state), (single, state), (x, state[:, :1]))


@pytest.mark.parametrize("width", [3, 5])
def test_first_state_may_look_like_an_item(width):
    """State and item are both selected, and may be as wide."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.RNNCell(width, 3)

        def forward(self, x: Tensor, state: Tensor):
            hidden = state[0]
            for place in range(6):
                hidden = self.layer(x[place], hidden)
            return hidden

    torch.manual_seed(0)
    x, state = torch.randn(6, 2, width), torch.randn(1, 2, 3)
    module = torch.jit.trace(Both().eval(), (x, state))
    optimized = tsarchive.optimize(module)
    assert done(optimized)["steps of tanh RNN as one layer"] == 1
    check(module, optimized, (x, state), (x.repeat(1, 2, 1), state.repeat(1, 2, 1)))
