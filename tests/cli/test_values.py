"""Values taken apart: summaries, plain copies, comparison to the bit."""

from __future__ import annotations

import json
import math
import warnings
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.cli.output import print_foreign_json, print_json
from tsarchive.cli.run import leaves, lines, plain, summary
from tsarchive.demo.comparison import Comparison, compare
from tsarchive.describing.text import duration, plural, shape, size, visible


def quantized():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
        return torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 0, torch.quint8)


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


NESTED = {"a": [torch.ones(2), (1, None)], "b": Pair(torch.zeros(1), 2), 3: "text"}

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS | st.builds(torch.tensor, st.lists(st.floats(width=32))),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)

TENSORS = {
    "float32": torch.tensor([1.0, -2.0, 4.0]),
    "float16": torch.tensor([1.0, 2.0], dtype=torch.float16),
    "bfloat16": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    "float8": torch.tensor([1.0, 2.0]).to(torch.float8_e5m2),
    "int8": torch.tensor([1, -2], dtype=torch.int8),
    "uint16": torch.tensor([1, 2], dtype=torch.uint16),
    "bool": torch.tensor([True, False]),
    "complex": torch.tensor([1 + 2j]),
    "conjugate": torch.tensor([1 + 2j]).conj(),
    "scalar": torch.tensor(3.5),
    "empty": torch.empty(0, 3),
    "sparse": torch.eye(2).to_sparse(),
    "quantized": quantized(),
    "gradient": torch.ones(2, requires_grad=True),
    "transposed": torch.arange(6).reshape(2, 3).t(),
    "not finite": torch.tensor([math.nan, math.inf, 1.0]),
}


@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)
def test_every_tensor_has_a_summary_a_copy_and_equals_itself(tensor, capsys):
    found = summary(tensor)
    assert found["type"] == "tensor"
    assert found["shape"] == list(tensor.shape)
    print_json(found, "values")
    assert json.loads(capsys.readouterr().out)["dtype"] == str(tensor.dtype)[6:]
    assert len(list(lines("x", found))) == 1
    assert compare(plain(tensor), plain(tensor.clone())) == Comparison(True, 0.0)


def test_the_figures_of_a_tensor():
    found = summary(torch.tensor([[1.0, -2.0, 4.0], [0.0, 0.0, 3.0]]))
    assert (found["min"], found["mean"], found["max"]) == (-2.0, 1.0, 4.0)
    assert found["first"] == [1.0, -2.0, 4.0, 0.0, 0.0]
    assert next(lines("x", found)) == (
        "x: float32 2x3, min -2, mean 1, max 4, values [1, -2, 4, 0, 0, ...]"
    )


def test_nested_values():
    found = summary(NESTED)
    assert found["type"] == "dict"
    assert [item["key"] for item in found["items"]] == ["a", "b", 3]
    assert found["items"][1]["value"]["fields"]["right"] == {"type": "int", "value": 2}
    assert [line.split(":")[0] for line in lines("out", found)] == [
        "out", "  'a'", "    0", "    1", "      0", "      1", "  'b'", "    left", "    right",
        "  3",
    ]  # fmt: skip
    assert [path for path, _ in leaves(NESTED)] == [
        "output.a.0", "output.a.1.0", "output.a.1.1", "output.b.left", "output.b.right", "output.3"
    ]  # fmt: skip


def test_plain_copies_hold_nothing_else():
    copied = plain({"p": Pair(torch.ones(1, requires_grad=True), 2), "o": object()})
    assert type(copied["p"]) is tuple
    assert not copied["p"][0].requires_grad
    assert copied["o"] == "<object>"


@given(VALUES)
def test_a_value_equals_its_copy(value):
    assert compare(plain(value), plain(value)).equal


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1, 2, Comparison(False, None)),
        (1, 1.0, Comparison(False, None)),
        (True, 1, Comparison(False, None)),
        (1.0, 1.5, Comparison(False, 0.5)),
        (0.0, -0.0, Comparison(False, 0.0)),
        (math.nan, math.nan, Comparison(True, 0.0)),
        ("a", "b", Comparison(False, None)),
        ([1], [1, 2], Comparison(False, None)),
        ([1], (1,), Comparison(False, None)),
        ({"a": 1}, {"b": 1}, Comparison(False, None)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, Comparison(False, None)),
        (torch.ones(2), torch.ones(3), Comparison(False, None)),
        (torch.ones(2), torch.ones(2).double(), Comparison(False, None)),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.25]), Comparison(False, 0.25)),
        (torch.tensor([0.0]), torch.tensor([-0.0]), Comparison(False, 0.0)),
        (
            torch.tensor([math.nan, math.inf, 1.0]),
            torch.tensor([math.nan, math.inf, 3.0]),
            Comparison(False, 2.0),
        ),
        (
            [torch.zeros(1), torch.zeros(1)],
            [torch.ones(1), torch.full((1,), 3.0)],
            Comparison(False, 3.0),
        ),
        (torch.tensor([3 + 4j]), torch.tensor([0j]), Comparison(False, 5.0)),
    ],
)
def test_differences(first, second, expected):
    assert compare(first, second) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (size(0), "0 bytes"),
        (size(1023), "1023 bytes"),
        (size(1536), "1.5 KiB"),
        (size(5 * 1024**2), "5.0 MiB"),
        (size(3 * 1024**5), "3072.0 TiB"),
        (duration(0.0000114), "0.011 ms"),
        (duration(0.0123), "12.3 ms"),
        (duration(1.5), "1.50 s"),
        (shape([1, 3]), "1x3"),
        (shape([]), "scalar"),
        (plural(1, "class"), "1 class"),
        (plural(2, "class"), "2 classes"),
        (plural(1234, "tensor"), "1,234 tensors"),
        (visible("a\x1b[0m\tb\n"), "a\\x1b[0m\\tb\n"),
        (visible("\ud800é漢"), "\\ud800é漢"),
    ],
)
def test_words(text, expected):
    assert text == expected


def test_json_has_no_nan(capsys):
    print_foreign_json({"a": [math.nan, math.inf, -math.inf, 1.5], 1: (2,)})
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown == {"a": ["nan", "inf", "-inf", 1.5], "1": [2]}
