"""Inner steps of operators, which programs hold where public ones were taken apart."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from fixtures.executorch_programs import method
from fixtures.executorch_samples import tensor
from tests.support.executorch_files import loaded

SQUARE, VECTOR, ONE = [3, 3], [3], []
# The step, its arguments after the matrix, the sizes of its results (None where they are factors
# that only derivatives take), and the public operator.
STEPS = {
    "determinant": ("_linalg_det.result", (), (ONE, None, None), torch.linalg.det),
    "its logarithm": (
        "_linalg_slogdet.sign", (), (ONE, ONE, None, None), torch.linalg.slogdet,
    ),
    "eigenvectors": ("_linalg_eigh.eigenvalues", ("L", True), (VECTOR, SQUARE), torch.linalg.eigh),
    "eigenvalues": (
        "_linalg_eigh.eigenvalues", ("U", False), (VECTOR, None),
        lambda a: torch.linalg.eigvalsh(a, "U"),
    ),
    "singular vectors": (
        "_linalg_svd.U", (False, True, None), (SQUARE, VECTOR, SQUARE),
        lambda a: torch.linalg.svd(a, False),
    ),
    "singular values": (
        "_linalg_svd.U", (False, False, None), (None, VECTOR, None), torch.linalg.svdvals,
    ),
    "distances": ("_pdist_forward.out", (2.0,), (VECTOR,), torch.pdist),
}  # fmt: skip
A = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])


def stepping(name, read=()):
    """A program of the step; it gives what is made, and results ``read`` besides."""
    step, given, sizes, _ = STEPS[name]
    outs = [tensor(VECTOR if size is None else size, at=(1, 64 * (n + 1)))
            for n, size in enumerate(sizes)]  # fmt: skip
    first = 1 + len(given)
    numbers = range(first, first + len(outs))
    made = [n for n, size in zip(numbers, sizes, strict=True) if size is not None]
    args = range(1, first)
    steps = [(f"aten::{step}", 0, *args, *numbers, first)]
    outputs = [*made, *(numbers[n] for n in read)]
    return loaded(method([tensor(SQUARE, at=(1, 0)), *given, *outs], steps, [0], outputs))


@pytest.mark.parametrize("name", STEPS)
def test_the_public_operator_stands_for_a_step(name):
    found, expected = stepping(name)(A), STEPS[name][-1](A)
    if isinstance(expected, torch.Tensor):
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("name", "position"), [("determinant", 1), ("singular values", 2)])
def test_what_only_derivatives_take_is_not_given(name, position):
    with pytest.raises(tsarchive.UnsupportedError, match=r"does not compute value \d here"):
        stepping(name, [position])(A)
