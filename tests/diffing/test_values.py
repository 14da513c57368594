"""How far tensors are apart, against what torch computes, for every dtype of numbers."""

from __future__ import annotations

import math

import numpy
import pytest
import torch

from tsarchive.diffing.numbers import numbers_of
from tsarchive.diffing.report import ValueDifference
from tsarchive.diffing.values import Distance

FLOATS = ["float16", "bfloat16", "float32", "float64"]
SMALL = ["float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"]
COMPLEX = ["complex32", "complex64", "complex128"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS = [*FLOATS, *SMALL, *COMPLEX, *INTEGERS, "bool"]


def raw(tensor: torch.Tensor) -> memoryview:
    return memoryview(bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()))


def difference(before: torch.Tensor, after: torch.Tensor) -> ValueDifference:
    numbers = numbers_of(str(before.dtype).removeprefix("torch."))
    assert numbers is not None
    found = Distance(numbers)
    found.add(raw(before), raw(after))
    return found.found


def drawn(dtype: str, seed: int, count: int = 500) -> torch.Tensor:
    """Finite elements of any bits."""
    random = numpy.random.default_rng(seed)
    torch_dtype = getattr(torch, dtype)
    size = torch.empty(0, dtype=torch_dtype).itemsize
    data = random.integers(0, 2 if dtype == "bool" else 256, count * size, dtype=numpy.uint8)
    found = torch.from_numpy(data).view(torch_dtype)
    return found[wide(found).isfinite()]


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", NUMBERS)
def test_distances_are_those_of_torch(dtype):
    one, other = drawn(dtype, 1), drawn(dtype, 2)
    count = min(len(one), len(other))
    one, other = one[:count], other[:count]
    found = difference(one, other)
    apart, sizes = (wide(other) - wide(one)).abs(), wide(one).abs()
    is_other = (one.view(torch.uint8) != other.view(torch.uint8)).reshape(count, -1).any(1)
    assert (found.elements, found.differing) == (count, int(is_other.sum()))
    assert found.max_absolute == pytest.approx(float(apart.max()), rel=1e-14)
    relative = (apart / sizes).nan_to_num(0.0, math.inf).max()
    assert found.max_relative == pytest.approx(float(relative))
    assert found.norm == pytest.approx(exact_norm(apart))
    assert found.norm_before == pytest.approx(exact_norm(sizes))


def exact_norm(values: torch.Tensor) -> float:
    return math.hypot(*values.tolist())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("start", [1.0, -2.0, 0.0, 3e-5])
@pytest.mark.parametrize("steps", [1, 2, 300])
def test_steps_are_those_of_nextafter(dtype, start, steps):
    before = torch.tensor([start], dtype=getattr(torch, dtype))
    after = before
    for _ in range(steps):
        after = torch.nextafter(after, torch.full_like(after, math.inf))
    assert difference(before, after).max_ulps == steps


@pytest.mark.parametrize("dtype", [name for name in SMALL if name != "float8_e8m0fnu"])
def test_steps_of_small_floats_are_counted_in_their_order(dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(getattr(torch, dtype))
    ordered = sorted({*wide(codes)[wide(codes).isfinite()].tolist()})
    ends = torch.tensor([ordered[0], ordered[-1]]).to(getattr(torch, dtype))
    assert difference(ends[:1], ends[1:]).max_ulps == len(ordered) - 1


def test_integers_have_exact_differences_and_no_steps():
    one = torch.tensor([2**62, -(2**63)])
    found = difference(one, torch.tensor([2**62 + 1, -(2**63)]))
    assert (found.max_absolute, found.differing, found.max_ulps) == (1.0, 1, None)
    assert difference(one[1:], torch.tensor([2**63 - 1])).max_absolute == 2.0**64


def of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


NAN, INF = math.nan, math.inf
PAYLOAD = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
# Before, after: elements that differ, the largest distances and the norm.
SPECIAL = {
    "signs of zero": (of(0.0, 1.0), of(-0.0, 1.0), (1, 0.0, 0.0, 0, 0.0)),
    "payloads of NaN": (of(NAN), PAYLOAD, (1, 0.0, 0.0, 0, 0.0)),
    "the same NaN": (of(NAN, 1.0), of(NAN, 2.0), (1, 1.0, 1.0, 1 << 23, 1.0)),
    "the same infinity": (of(INF, 1.0), of(INF, 2.0), (1, 1.0, 1.0, 1 << 23, 1.0)),
    "infinity on one side": (of(1.0, 1.0), of(INF, 2.0), (2, INF, INF, 1 << 23, INF)),
    "NaN on one side": (of(NAN, 1.0), of(1.0, 2.0), (2, INF, INF, 1 << 23, INF)),
    "other infinities": (of(INF), of(-INF), (1, INF, INF, 0, INF)),
    "zero before": (of(0.0), of(1.0), (1, 1.0, INF, 0x3F800000, 1.0)),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_what_is_no_finite_number(name):
    before, after, expected = SPECIAL[name]
    found = difference(before, after)
    told = found.differing, found.max_absolute, found.max_relative, found.max_ulps, found.norm
    assert told == pytest.approx(expected)


def test_squares_that_no_float_holds_have_a_norm():
    one = torch.tensor([1e200, 3e-200], dtype=torch.float64)
    assert difference(one[:1], 2 * one[:1]).norm == pytest.approx(1e200)
    assert difference(one[1:], 2 * one[1:]).norm == pytest.approx(3e-200)


def test_pieces_add_up():
    one, other = drawn("float32", 3, 300_000), drawn("float32", 4, 300_000)
    count = min(len(one), len(other)) // 2 * 2
    numbers = numbers_of("float32")
    assert numbers is not None
    in_pieces = Distance(numbers)
    for part in (slice(0, 7), slice(7, count)):
        in_pieces.add(raw(one[part]), raw(other[part]))
    whole = difference(one[:count], other[:count])
    assert in_pieces.found.norm == pytest.approx(whole.norm)
    assert in_pieces.found.max_ulps == whole.max_ulps
    assert in_pieces.found.differing == whole.differing


def test_numbers_that_share_a_byte_are_not_told_apart():
    assert [numbers_of(name) for name in ("quint4x2", "bits1x8", "float4_e2m1fn_x2")] == [None] * 3


# Before, after, what is counted, and the words.
WORDS = {
    "a number becomes NaN": (of(1.0, 2.0), of(NAN, 3.0), (1, 0, 0), "1 became NaN"),
    "NaN becomes a number": (of(NAN), of(1.0), (0, 1, 0), "1 no longer NaN"),
    "infinity": (of(INF, 1.0, INF), of(3.0, INF, -INF), (0, 0, 3), "3 to or from infinity"),
    "infinity and NaN": (of(INF, NAN), of(NAN, INF), (1, 1, 0), "1 became NaN, 1 no longer NaN"),
    "signs of zero": (of(0.0), of(-0.0), (0, 0, 0), "in their bits alone"),
    "payloads of NaN": (of(NAN), PAYLOAD, (0, 0, 0), "in their bits alone"),
    "numbers": (of(1.0), of(2.0), (0, 0, 0), ""),
    "large numbers": (of(3e38), of(-3e38), (0, 0, 0), ""),
}


@pytest.mark.parametrize("name", WORDS)
def test_what_has_no_distance_is_counted_and_told(name):
    before, after, counts, words = WORDS[name]
    equal = of(*range(20))  # few of many elements are picked first
    for more in (of(), equal):
        found = difference(torch.cat([before, more]), torch.cat([after, more]))
        assert (found.became_nan, found.was_nan, found.infinite) == counts
        assert found.special == words
