"""The bytes that are digested, as docs/fingerprint.md tells them: written here a second time."""

from __future__ import annotations

import hashlib
import io
import math
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import saved
from tsarchive.analyses.encoding import encode

TABLE = {
    "none": (None, b"n0:"),
    "true": (True, b"b1:1"),
    "false": (False, b"b1:0"),
    "int": (-12, b"i3:-12"),
    "float": (-0.0, b"f8:" + bytes([0x80]) + bytes(7)),
    "complex": (1 + 0j, b"c16:\x3f\xf0" + bytes(14)),
    "string": ("\xe4", b"s2:\xc3\xa4"),
    "string that is not UTF-8": ("\udcff", b"s1:\xff"),
    "bytes": (b"ab", b"y2:ab"),
    "list": (["a", 1], b"l2:s1:ai1:1"),
    "tuple": ((), b"l0:"),
    "mapping": ({"b": 1, "a": 2}, b"d2:s1:ai1:2s1:bi1:1"),
}


@pytest.mark.whole
@pytest.mark.parametrize("row", TABLE)
def test_items_are_a_letter_a_length_and_a_content(row):
    value, expected = TABLE[row]
    assert encode(value) == expected


def decoded(data: bytes, start: int = 0):
    """What was encoded, and where it ends; floats by their bytes, so that NaNs are equal."""
    colon = data.index(b":", start)
    letter, count = data[start : start + 1], int(data[start + 1 : colon])
    place = colon + 1
    if letter in b"ld":
        items = []
        for _ in range(count * (1 + (letter == b"d"))):
            item, place = decoded(data, place)
            items.append(item)
        is_mapping = letter == b"d"
        return (dict(zip(items[::2], items[1::2], strict=True)) if is_mapping else items), place
    content = data[place : place + count]
    value = {
        b"n": lambda: None,
        b"b": lambda: content == b"1",
        b"i": lambda: int(content),
        b"f": lambda: struct.unpack(">d", content)[0],
        b"s": lambda: content.decode("utf-8", "surrogateescape"),
        b"y": lambda: content,
    }[letter]()
    return value, place + count


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_can_be_read_back(value):
    """So two values never have the same bytes."""
    data = encode(value)
    assert decoded(data) == (value, len(data))


def test_payloads_of_nan_count():
    (other,) = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))
    assert math.isnan(other)
    assert encode(math.nan) != encode(other)


def digest(part: str, value) -> str:
    return f"tsf1:{hashlib.sha256(encode(['tsf1', part, value])).hexdigest()}"


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t())
        self.root = 1 + 2j

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * self.weight if x.dim() == 2 else x


def test_a_model_has_the_digests_that_the_document_tells():
    """Every part, from its rules alone."""
    data = saved(torch.jit.script(Scaled()), extra_files={"note": b"text"})
    found = tsarchive.fingerprint(io.BytesIO(data))
    name = f"__torch__.{Scaled.__module__}.Scaled"
    meaning = ["dense", "float32", [2, 2], []]
    weight = hashlib.sha256(encode(["tsf1", "tensor", meaning]))
    weight.update(struct.pack("<4f", 1, 3, 2, 4))
    tensors = {"weight": f"tsf1:{weight.hexdigest()}"}
    structure = {
        "class": name,
        "attributes": [
            ["weight", {"tensor": meaning, "device": "cpu", "grad": False}],
            ["training", True],
            ["_is_full_backward_hook", None],
            ["root", 1 + 2j],
        ],
    }
    dim = ["aten::dim", None, [1], {}, [], ["int"]]
    equal = ["aten::eq.int", None, [3, ["int", 2]], {}, [], ["bool"]]
    attribute = ["prim::GetAttr", None, [0], {"name": "weight"}, [], ["Tensor"]]
    product = ["aten::mul.Tensor", None, [1, 5], {}, [], ["Tensor"]]
    blocks = [[[], [attribute, product], [6]], [[], [], [1]]]
    chosen = ["prim::If", None, [4], {}, blocks, ["Tensor"]]
    signature = [
        [["self", name, []], ["x", "Tensor", []], ["scale", "float", [2.0]]],
        ["Tensor"],
    ]
    body = [[name, "Tensor", "float"], [dim, equal, chosen], [7]]
    slots = [
        ["weight", "Tensor", False, True],
        ["training", "bool", False, False],
        ["_is_full_backward_hook", "Optional[bool]", False, False],
        ["root", "complex", False, False],
    ]
    code = [[name, ["module", slots, [], [["forward", [signature, body]]], [], [], []]]]
    assert found.structure == digest("structure", structure)
    assert found.code == digest("code", code)
    assert found.tensors == tensors
    assert found.weights == digest("weights", tensors)
    files = {"note": hashlib.sha256(b"text").digest()}
    assert found.extra_files == digest("extra files", files)
    parts = [found.code, found.structure, found.weights]
    assert found.model == digest("model", parts)
