"""str(), format() and % against torch's text, values and tensors alike."""

import enum
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.natives.oracle import Failed, by_native, by_script, check_script
from tests.support.archives import TORCH
from tests.support.suite import examples
from tsarchive.run.natives import Awaitable, Future, format_value
from tsarchive.run.natives.formatting import format_tensor

INF, NAN = math.inf, math.nan
FLOATS = (
    *(0.0, -0.0, 1.0, 0.1, -2.5, 1e-7, 1e10, 1e17, 123456.75, 5e-324, 2.0**63, -(2.0**63)),
    *(2.0**53, 1.5e300, INF, -INF, NAN, -NAN),
)
VALUES = (
    *FLOATS,
    *(0, -7, 2**63 - 1, True, False, "", "text", torch.device("cuda:1"), torch.device("cpu")),
    *(1 + 2j, complex(-0.0, -0.0), complex(1.5, NAN), complex(1e300, -2.5), complex(NAN, INF)),
    *([1, 2], [1.0, 0.5], ["a", "b"], [[1], [2, 3]], [True]),
    *((1,), (1, "x"), (True, (2.0, "y")), ()),
    *({"a": [1.5, 2.0]}, {1: "x", 2: "y"}, {0.5: (1, 2)}),
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_str(value):
    check_script("aten::str", value, result="str")


def test_str_of_containers_without_items():
    for value, annotation in (([], "List[int]"), ({}, "Dict[str, int]")):
        check_script("aten::str", value, types=(annotation,), result="str")
    assert format_value(None) == "None"


@given(st.floats(allow_subnormal=True))
@settings(max_examples=examples(200))
def test_str_of_any_float(value):
    check_script("aten::str", value, result="str")


class Color(enum.Enum):
    RED = 1


class Mixed(int, enum.Enum):
    ONE = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Color.RED, "Enum<Color.RED>"),
        ([Mixed.ONE], "[Enum<Mixed.ONE>]"),
        (torch.Generator(), "Generator"),
        (Future(int), "Future"),
        (Awaitable(int), "Await"),
    ],
)
def test_values_that_scripts_cannot_take(value, text):
    assert format_value(value) == text


def test_objects_show_class_and_identity():
    value = object()
    assert format_value(value) == f"<builtins.object object at {id(value):#x}>"


TEMPLATES = ("", "plain", "{}", "{} {}", "{}{}{}", "{{}}", "{0} {:d} {", "}{", "é{}é")


@pytest.mark.parametrize("template", TEMPLATES)
def test_format(template):
    for values in ((), (1,), ("é", 2.5), ([1.0], (1, "x"))):
        check_script("aten::format", template, *values, result="str")


def test_format_joins_bytes_to_characters():
    check_script("aten::format", "\udcc3{}", "\udca9", result="str")
    assert by_native("aten::format", "\udcc3{}", "\udca9") == "é"


PERCENT_CALLS = [
    *(("%d", value) for value in (1.9, -1.9, 1e20, NAN, 7, 2**40, "a", None, [1])),
    *(("%i", value) for value in (3, -2.5)),
    *((f"%{c}", value) for c in "eEfF" for value in (16777217, 2**63 - 1, 0.1, INF, -NAN, 1e39)),
    *(("%c", value) for value in (65, 489, "a", "é", "ab", 1.5)),
    *(("%s", value) for value in (1.5, "é", [1], (1,), None, True)),
    *((text, 1) for text in ("%x", "%5d", "a%", "%%", "%%%d", "%", "%s%s", "x", "%%%", "")),
    *((text, (1, "b")) for text in ("%s %s", "%d", "%d%s%s", "%d%%%s", "é%d%sé")),
    ("%", ()),
    ("", ()),
    ("%%", ()),
]


@pytest.mark.parametrize(("template", "value"), PERCENT_CALLS, ids=repr)
def test_percent(template, value):
    types = ("str", "Optional[int]") if value is None else ()
    check_script("aten::percentFormat", template, value, types=types, result="str")


@pytest.mark.parametrize("value", [True, 1j])
def test_percent_refuses_numbers_that_torch_does_not_expect(value):
    assert isinstance(by_script("aten::percentFormat", "%d", value), Failed)
    assert isinstance(by_native("aten::percentFormat", "%d", value), Failed)


DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2),
)
RANGE = torch.arange(-4, 20, dtype=torch.float64)
DOUBLES = {
    "0-dim": torch.tensor(1e20),
    "0-dim fraction": torch.tensor(-0.1, dtype=torch.float64),
    "fraction": torch.tensor([1.5, 2.25]),
    "wide": torch.tensor([1e-10, 1.5]),
    "widest": torch.tensor([1e300, 2e-300], dtype=torch.float64),
    "wide from above": torch.tensor([1e120, 1.5], dtype=torch.float64),
    "wide from below": torch.tensor([1e-120, 1.5], dtype=torch.float64),
    "just not wide": torch.tensor([12345.5, 1.25]),
    "large": torch.tensor([1234567.5, 2345678.5]),
    "small": torch.tensor([0.001, -0.002]),
    "below one": torch.tensor([0.1, 0.25]),
    "zero among fractions": torch.tensor([0.0, 0.5]),
    "not finite": torch.tensor([NAN, 1.0, -INF]),
    "only nan": torch.tensor([[NAN, -NAN], [INF, -INF]]),
    "large whole": torch.tensor([10**10, 1]),
    "largest int": torch.tensor([2**63 - 1, -(2**63)]),
    "scaled matrix": torch.tensor([[0.0001, 0.0002], [0.0003, -0.0001]]),
    "scaled cube": torch.tensor([[[0.0001], [0.0002]], [[0.0003], [123.5]]]),
    "wide matrix": torch.arange(60).reshape(2, 30).float() / 7,
    "wide scaled matrix": torch.arange(60).reshape(2, 30).float() * 100000.5,
    "wide cube": torch.arange(60).reshape(1, 1, 60) * 1000,
    "cube": torch.arange(24).reshape(2, 3, 4),
    "four dimensions": torch.arange(24.0).reshape(2, 3, 2, 2),
    "five dimensions": torch.arange(16).reshape(2, 1, 2, 2, 2),
    "empty": torch.zeros(0),
    "empty matrix": torch.zeros(2, 0, dtype=torch.int32),
    "empty cube": torch.zeros(2, 0, 3),
    "view": RANGE.reshape(4, 6).t()[::2],
    "complex": torch.tensor([1 + 2j, 3.5 - 4j]),
    "conjugate": torch.tensor([1 + 2j, 3.5 - 4j]).conj(),
    "requires grad": torch.ones(2, requires_grad=True),
    "sparse": torch.eye(2).to_sparse(),
    "sparse without entries": torch.zeros(2, 3).to_sparse(),
    **{str(dtype): torch.tensor([0, 1, 1]).to(dtype) for dtype in DTYPES},
}


@pytest.mark.parametrize("name", DOUBLES)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_str_of_tensor(name):
    if name == "scaled cube" and TORCH < (2, 8):
        pytest.skip("torch 2.7 and older scale the planes of a cube otherwise")
    check_script("aten::str", DOUBLES[name], result="str")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_str_of_quantized_tensors():
    ones = torch.ones(2, 2)
    scales, zeros = torch.tensor([0.1, 0.25]), torch.tensor([0, 1])
    for tensor in (
        torch.quantize_per_tensor(ones, 0.1, 3, torch.quint8),
        torch.quantize_per_channel(ones, scales, zeros, 0, torch.qint8),
    ):
        check_script("aten::str", tensor, result="str")


def test_str_of_mkldnn_tensor():
    check_script("aten::str", torch.ones(2, 2).to_mkldnn(), result="str")


def test_tensors_without_values_have_no_text():
    tensor = torch.empty(2, device="meta")
    assert isinstance(by_script("aten::str", tensor), Failed)
    with pytest.raises(RuntimeError):
        format_tensor(tensor)


@settings(max_examples=examples(100))
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.floats(-12, 12),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_str_of_any_tensor(sizes, exponent, seed, whole):
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randn(sizes, generator=generator, dtype=torch.float64) * 10**exponent
    check_script("aten::str", tensor.round() if whole else tensor, result="str")
