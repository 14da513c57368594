"""What ties a file to one device, size, dtype, folder or run. Sizes are tried with torch itself."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import ARCHIVES, records_of
from tsarchive.container import NewRecord, write_container


class Viewed(nn.Module):
    """``view`` with the sizes that a subclass gives."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(8, 4)

    def features(self, x):
        return self.pool(torch.relu(self.conv(x)))


class BatchInView(Viewed):
    def forward(self, x):
        return self.linear(self.features(x).view(2, 8))


class OneRow(Viewed):
    def forward(self, x):
        return self.features(x).view(1, -1)


class OpenBatch(Viewed):
    def forward(self, x):
        return self.linear(self.features(x).view(-1, 8))


class SizeOfInput(Viewed):
    def forward(self, x):
        return self.linear(self.features(x).view(x.size(0), -1))


class Flattened(Viewed):
    def forward(self, x):
        return self.linear(torch.flatten(self.features(x), 1))


class ImageInView(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        return nn.functional.max_pool2d(self.conv(x), 2).view(-1, 128).sum(1)


class Token(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 6))

    def forward(self, x):
        return torch.cat([self.token.expand(len(x), -1, -1), x], 1)


class TokenOfInput(Token):
    def forward(self, x):
        return torch.cat([self.token.expand(x.size(0), -1, -1), x], 1)


class State(nn.Module):
    def forward(self, x):
        return torch.zeros(2, 6) + x


class StateLikeInput(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) + x


class Positions(nn.Module):
    """The sizes of parameters are the model's own."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(5, 6))

    def forward(self, x):
        return x + self.positions


IMAGE, ROWS, TABLE = (2, 3, 8, 8), (3, 5, 6), (2, 6)
# The shape that is traced, and the places of dimensions that are baked in.
SIZES = {
    BatchInView: (IMAGE, [0]),
    OneRow: ((1, 3, 8, 8), [0]),
    OpenBatch: (IMAGE, []),
    SizeOfInput: (IMAGE, []),
    Flattened: (IMAGE, []),
    ImageInView: (IMAGE, [2, 3]),
    Token: (ROWS, [0]),
    TokenOfInput: (ROWS, []),
    State: (TABLE, [0, 1]),
    StateLikeInput: (TABLE, []),
    Positions: (ROWS, []),
}


def traced(module, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.trace(module.eval(), torch.rand(shape), check_trace=False)
        stream = io.BytesIO()
        torch.jit.save(made, stream)
    return made, stream


def ties_of(stream, kind):
    stream.seek(0)
    return [tie for tie in tsarchive.compat(stream, ["2.9"]).ties if tie.kind == kind]


@pytest.mark.parametrize(
    ("make", "given"), SIZES.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_baked_sizes_are_told_and_no_others(make, given):
    shape, places = given
    _, stream = traced(make(), shape)
    told = {
        name
        for tie in ties_of(stream, "size")
        for name in tie.text.split(" stands for ")[1].split(" and ")
    }
    assert told == {f"dimension {place} of x" for place in places}


class Written(nn.Module):
    """A forward that a test writes, of a module with layers for it."""

    def __init__(self, forward):
        super().__init__()
        self.run = forward
        self.linear = nn.Linear(6, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.positions = nn.Parameter(torch.zeros(1, 13, 6))
        self.token = nn.Parameter(torch.zeros(1, 1, 6))

    def forward(self, x):
        return self.run(self, x)


WORDS, PICTURES = (7, 13, 6), (7, 3, 10, 10)
# Calls, what is traced, and for which places which constants stand.
CONSTANTS = {
    "view, -1": (lambda m, x: x.view(7, -1), PICTURES, {"7": "0"}),
    "view, all": (lambda m, x: x.reshape(7, 300), PICTURES, {"7": "0", "300": "1 2 3"}),
    "view, new dimension": (lambda m, x: x.view(-1, 1), (5, 1), {}),
    "view, one row": (lambda m, x: x.view(1, -1), (1, 6), {"1": "0"}),
    "view of few": (lambda m, x: x.reshape(2, 12), (2, 3, 4), {"2": "0", "12": "1 2"}),
    "view, split": (
        lambda m, x: m.linear(x).view(7, 13, 2, 3), WORDS, {"7": "0", "13": "1"},
    ),
    "view, all split": (
        lambda m, x: x.view(7, 13, 2, 3), WORDS, {"7": "0", "13": "1", "2 3": "2"},
    ),
    "view, layer": (lambda m, x: m.linear(x.view(91, 6)), WORDS, {"91": "0 1"}),
    "view, rows": (lambda m, x: x.view(-1, 26), WORDS, {}),
    "view after cat": (
        lambda m, x: torch.cat([x, x], 1).view(7, 12), (7, 6), {"7": "0", "12": "1"},
    ),
    "view after cumsum": (lambda m, x: m.linear(x.cumsum(1).view(7, 6)), (7, 6), {"7": "0"}),
    "expand": (lambda m, x: x + m.token.expand(7, 13, 6), WORDS, {"7": "0", "13": "1"}),
    "expand, known": (lambda m, x: x + m.positions.expand(7, 13, 6), WORDS, {"7": "0"}),
    "repeat": (lambda m, x: x + m.positions.repeat(7, 1, 1), WORDS, {"7": "0"}),
    "zeros": (lambda m, x: x + x.new_zeros(7, 1, 1), WORDS, {"7": "0"}),
    "full": (
        lambda m, x: x @ x.transpose(1, 2) + torch.full([13, 13], 1.0).triu(1), WORDS, {"13": "1"},
    ),
    "arange": (lambda m, x: x + torch.arange(13).view(1, -1, 1), WORDS, {"13": "1"}),
    "arange from 1": (lambda m, x: x + torch.arange(1, 14).view(1, -1, 1), WORDS, {}),
    "slice": (lambda m, x: m.linear(x) + m.positions[:, :13], WORDS, {"13": "1"}),
    "slice of fewer": (lambda m, x: m.linear(x) + m.positions[:, :99], WORDS, {}),
    "slice of input": (lambda m, x: x[:, :13], WORDS, {}),
    "narrow": (lambda m, x: m.linear(x) + m.positions.narrow(1, 0, 13), WORDS, {"13": "1"}),
    "narrow of input": (lambda m, x: x.narrow(1, 0, 13), WORDS, {}),
    "interpolate": (
        lambda m, x: x + nn.functional.interpolate(x[:, :, ::2], size=(10, 10)),
        PICTURES,
        {"10": "2", "10 ": "3"},
    ),
    "lstm": (
        lambda m, x: m.lstm(x, (torch.zeros(1, 7, 5), torch.zeros(1, 7, 5)))[0], WORDS, {"7": "0"},
    ),
    "sizes of the input": (
        lambda m, x: m.linear(x).view(x.shape[0], x.shape[1], 2, 3) + torch.zeros(len(x.shape)),
        WORDS,
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("forward", "shape", "told"), CONSTANTS.values(), ids=CONSTANTS)
def test_each_constant_stands_for_its_own_dimensions(forward, shape, told):
    _, stream = traced(Written(forward), shape)
    found = [tie.text for tie in ties_of(stream, "size")]
    assert sorted(found) == sorted(map(_stands, told, told.values()))


def _stands(constants, places):
    names = " and ".join(constants.split())
    of = " and ".join(f"dimension {place} of x" for place in places.split())
    if " " in constants.strip():
        return f"the constants {names} stand for {of}"
    return f"the constant {names} stands for {of}"


@pytest.mark.parametrize(
    ("make", "given"), SIZES.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_calls_with_another_size_fail_where_it_is_baked(make, given):
    """As torch runs it: what is told fails or mixes rows, what is not told runs."""
    shape, places = given
    made, _ = traced(make(), shape)
    other = (shape[0] + 2, *shape[1:])
    try:
        result = made(torch.rand(other))
    except RuntimeError:
        works = False
    else:
        works = result.shape[0] == other[0]
    assert works == (0 not in places)


def test_a_size_is_told_with_its_line():
    _, stream = traced(BatchInView(), IMAGE)
    (tie,) = ties_of(stream, "size")
    assert tie.text == "the constant 2 stands for dimension 0 of x"
    assert "[2, 8]" in tie.code
    assert tie.source.filename.endswith("test_ties.py")
    assert tie.remedy


class Devices(nn.Module):
    def forward(self, x):
        return x + torch.zeros(3, device="cpu") + torch.ones(3, dtype=torch.float64)


class Random(nn.Module):
    def forward(self, x, training: bool):
        return torch.rand(3) + nn.functional.dropout(x, 0.5, training=False)


class Moved(nn.Module):
    def forward(self, x):
        return x.cuda() + x.cpu()


def dropped(x: torch.Tensor, is_training: bool):
    return nn.functional.dropout(x, 0.5, is_training)


class Dropped(nn.Module):
    def forward(self, x, training: bool):
        y = dropped(x, True) + nn.functional.dropout(x, 0.5, training) + dropped(x, training)
        return torch.feature_dropout(y, 0.5, True)


class DroppedAsTold(nn.Module):
    def forward(self, x, training: bool):
        return dropped(x, False) + dropped(x, training) + nn.functional.dropout(x, 0.1, False)


class Paths(nn.Module):
    def __init__(self):
        super().__init__()
        self.vocabulary = "/home/user/vocabulary.txt"

    def forward(self, x: str):
        return x + "/data/models/tokens.bin" + "a/b" + self.vocabulary


def scripted(module):
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(module), stream)
    return stream


@pytest.mark.parametrize(
    ("make", "kind", "texts"),
    [
        (Devices, "device", ["code names the CPU, wherever the model is"]),
        (Devices, "dtype", ["aten::ones gives float64, whatever the dtype of the model is"]),
        (Moved, "device", ["code names cuda", "code names the CPU, wherever the model is"]),
        (Random, "random", ["aten::rand draws random numbers"]),
        (
            Dropped,
            "random",
            [
                "tests.compat.test_ties.dropped draws random numbers",
                "aten::feature_dropout draws random numbers",
            ],
        ),
        (DroppedAsTold, "random", []),
        (
            Paths,
            "path",
            [
                "the path /home/user/vocabulary.txt is a value",
                "the path /data/models/tokens.bin stands in code",
            ],
        ),
    ],
)
def test_what_code_names_is_told(make, kind, texts):
    assert [tie.text for tie in ties_of(scripted(make()), kind)] == texts


def test_tensors_on_a_device_are_told(tmp_path):
    records = records_of((ARCHIVES / "buffers.pt").read_bytes())
    moved = records["data.pkl"].replace(b"\x03\x00\x00\x00cpu", b"\x06\x00\x00\x00cuda:0")
    assert moved != records["data.pkl"]
    records["data.pkl"] = moved
    del records[".data/serialization_id"]
    path = tmp_path / "cuda.pt"
    write_container(path, [NewRecord(name, data) for name, data in records.items()])
    (tie,) = [tie for tie in tsarchive.compat(path, ["2.9"]).ties if tie.kind == "device"]
    assert tie.text == "tensors or values are on cuda:0"
