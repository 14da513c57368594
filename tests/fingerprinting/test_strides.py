"""Elements of tensors of any strides, in the order of torch, in few steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.formats import strides
from tsarchive.formats.contents import Elements

# Dimensions are few and small, so that pieces, runs and columns are made smaller still.
SMALL = {"_PIECE": 64, "_LONGEST": 40, "_LONG_RUN": 16, "_LONG_COLUMN": 4}
DTYPES = (torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex128)
STORAGE = torch.arange(2000)


def pieces(tensor: torch.Tensor) -> list[bytes]:
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[call-overload]
    size = tensor.element_size()
    elements = Elements(
        lambda: memoryview(whole.numpy()),
        tensor.storage_offset() * size,
        tensor.shape,
        [step * size for step in tensor.stride()],
        size,
        size,
    )
    return [bytes(piece) for piece in elements.pieces()]


def expected(tensor: torch.Tensor) -> bytes:
    return tensor.clone(memory_format=torch.contiguous_format).numpy().tobytes()


DIMENSIONS = st.lists(
    st.tuples(st.integers(1, 7), st.sampled_from([0, 1, 2, 3, 5, 8, 12, 40])), max_size=5
)


@given(st.sampled_from(DTYPES), DIMENSIONS, st.integers(0, 3))
def test_elements_are_in_the_order_of_their_indices(dtype, dimensions, offset):
    shape, steps = zip(*dimensions, strict=True) if dimensions else ((), ())
    tensor = STORAGE.to(dtype).as_strided(shape, steps, offset)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(strides, name, value)
        small = b"".join(pieces(tensor))
    assert small == b"".join(pieces(tensor)) == expected(tensor)


IMAGES = torch.arange(64 * 48 * 9.0).view(64, 48, 3, 3)
LAYOUTS = {
    "transposed": IMAGES.view(64, -1).t(),
    "channels last": IMAGES.to(memory_format=torch.channels_last),
    "few columns": IMAGES.view(3, -1).t(),
    "every second": IMAGES.view(-1)[::2],
    "expanded": IMAGES[:, :, 1:2, 1:2].expand(-1, -1, 30, 30),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_are_few_steps(layout, monkeypatch):
    """A column at a time, rather than an element."""
    columns = []
    column = strides._column
    monkeypatch.setattr(strides, "_column", lambda *given: columns.append(0) or column(*given))
    tensor = LAYOUTS[layout]
    assert b"".join(pieces(tensor)) == expected(tensor)
    assert 0 < len(columns) <= tensor.numel() / 30


def test_pieces_are_small():
    """However many elements few bytes stand for."""
    tensor = torch.ones(1, dtype=torch.uint8).expand(1 << 24)
    found = pieces(tensor)
    assert sum(map(len, found)) == 1 << 24
    assert max(map(len, found)) <= 1 << 20
