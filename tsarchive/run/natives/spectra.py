"""Short-time Fourier transforms, also as torch 1.7 to 1.13 computed them.

These gave and took real tensors, whose last dimension holds the two parts of each number: stft
where it is not told what to give, istft where it is given one. Torch refuses both since 2.0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives.table import native

_aten = torch.ops.aten
_PARTS = 2


def _is_complex(value: Tensor | None) -> bool:
    return value is not None and value.is_complex()


def _of_real(self: Tensor, window: Tensor | None, told: bool | None) -> bool:
    """Whether a transform of real tensors is not told what to give."""
    return told is None and not (_is_complex(self) or _is_complex(window))


@native("aten::stft")
def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None = None,
    *rest: Any,
) -> Any:
    given = (self, n_fft, hop_length, win_length, window, normalized, onesided)
    if _of_real(self, window, return_complex):
        return torch.view_as_real(_aten.stft.default(*given, True, *rest))
    return _aten.stft.default(*given, return_complex, *rest)


@native("aten::stft.center")
def centered_stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    *rest: Any,
) -> Any:
    given = (self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided)
    if _of_real(self, window, return_complex):
        return torch.view_as_real(_aten.stft.center(*given, True, *rest))
    return _aten.stft.center(*given, return_complex, *rest)


@native("aten::istft")
def istft(self: Tensor, *given: Any) -> Any:
    is_pairs = self.is_floating_point() and self.dim() > 1 and self.size(-1) == _PARTS
    spectrum = torch.view_as_complex(self.contiguous()) if is_pairs else self
    return _aten.istft.default(spectrum, *given)
