"""Random programs as torch scripts them."""

from __future__ import annotations

import torch
from hypothesis import reject

from tests.support.archives import torch_loaded, torch_saved
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


def archive_of(program: Program) -> bytes:
    """The archive that torch saves; programs whose archives torch does not read are left out.

    It writes large floats as ints, and one name for values of two types in two branches.
    """
    data = torch_saved(scripted(program))
    try:
        torch_loaded(data)
    except RuntimeError:
        reject()
    return data
