"""Transforms that torch 2 refuses are computed as before; all others are torch's own."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT
from tests.support.comparing import equal
from tsarchive.run.natives import NATIVES

REAL = torch.linspace(-1, 1, 24).view(2, 12).sin()
COMPLEX = torch.complex(REAL, REAL.cos())
WINDOW = torch.linspace(0.5, 1, 4)
STFT, CENTERED, ISTFT = "aten::stft", "aten::stft.center", "aten::istft"
RECORDED = ROOT / "fixtures" / "removed"
RESULTS = torch.load(RECORDED / "1.13.io.pt", weights_only=True)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def stft(key, x, window=WINDOW, told=None):
    """The arguments of a call."""
    middle = (True, "reflect") if key == CENTERED else ()
    return (x, 4, 2, 4, window, *middle, False, None, told)


def of_torch(key, *arguments):
    _, _, name = key.partition("::")
    name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")(*arguments)


TRANSFORMS = [
    (key, x, window, told)
    for key in (STFT, CENTERED)
    for x, window, told in (
        (REAL, WINDOW, True),
        (REAL, None, False),
        (COMPLEX, WINDOW, None),
        (REAL, WINDOW.to(torch.complex64), None),
    )
]


@pytest.mark.parametrize(("key", "x", "window", "told"), TRANSFORMS)
def test_torch_runs_what_it_takes(key, x, window, told):
    arguments = stft(key, x, window, told)
    assert equal(NATIVES[key](*arguments), of_torch(key, *arguments))


@pytest.mark.parametrize("key", [STFT, CENTERED])
@pytest.mark.parametrize("window", [None, WINDOW])
def test_parts_of_numbers_are_given_for_real_tensors(key, window):
    expected = torch.view_as_real(of_torch(key, *stft(key, REAL, window, True)))
    assert equal(NATIVES[key](*stft(key, REAL, window)), expected)


def inverse(x, told=False):
    return x, 4, 2, 4, WINDOW, True, False, None, None, told


SPECTRUM = of_torch(STFT, *stft(STFT, REAL, told=True))


@pytest.mark.parametrize("x", [SPECTRUM, torch.view_as_real(SPECTRUM)])
def test_inverse_takes_numbers_and_their_parts(x):
    assert equal(NATIVES[ISTFT](*inverse(x)), of_torch(ISTFT, *inverse(SPECTRUM)))


@pytest.mark.parametrize("x", [REAL, REAL.view(2, 3, 4), torch.ones(3, 2).long(), torch.ones(())])
def test_torch_refuses_what_holds_no_parts(x):
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        of_torch(ISTFT, *inverse(x))
    with pytest.raises(theirs.type) as ours:
        NATIVES[ISTFT](*inverse(x))
    assert str(ours.value) == str(theirs.value)


SPECTRA = ["stft_of_real", "stft_of_real_centered", "istft_of_real", "istft_of_transposed"]


@pytest.mark.parametrize("name", SPECTRA)
def test_exported_programs_compute_them(name):
    """As steps that torch of today takes."""
    module = tsarchive.load(RECORDED / "1.13.pt", policy=tsarchive.Policy.trusted())
    record = RESULTS[name]

    class Calling(torch.nn.Module):
        def forward(self, *given):
            return getattr(module, name)(*given)

    program = torch.export.export(Calling(), tuple(record["arguments"]))
    torch.testing.assert_close(program.module()(*record["arguments"]), record["expected"])
