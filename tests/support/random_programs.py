"""Random programs as torch scripts them."""

from __future__ import annotations

import torch
from hypothesis import reject

from tsarchive.testing import Program

# What torch.jit.script says where it fails itself.
_FAULTS_OF_TORCH = ("INTERNAL ASSERT FAILED", "bad optional access")


def scripted(program: Program) -> torch.jit.ScriptModule:
    """Programs that torch's compiler stumbles over itself are left out."""
    try:
        return torch.jit.script(program.module())
    except RuntimeError as error:
        if not any(text in str(error) for text in _FAULTS_OF_TORCH):
            raise
        reject()
