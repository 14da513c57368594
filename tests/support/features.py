"""What an older torch lacks, so that tests which need it as their oracle are skipped there."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from inspect import signature

import pytest
from torch.export import ExportedProgram

from tests.support.archives import TORCH

__all__ = [
    "CHECKS_MATRICES",
    "STORES_WEIGHTS_APART",
    "checks_guards",
    "compiles_calls_inside",
    "exports_generators",
    "exports_loops",
    "exports_numbers",
    "exports_vmap",
    "stores_vmap",
    "stores_weights_apart",
    "takes_trees_apart",
]

CHECKS_MATRICES = TORCH >= (2, 13)
"""Whether programs keep, when they are decomposed, what checks a matrix for errors."""


def _needs(is_there: bool, reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not is_there, reason=reason)


def _pt2_archives_have(name: str) -> bool:
    """Whether torch's own account of its PT2 archives has a constant."""
    try:
        constants = importlib.import_module("torch.export.pt2_archive.constants")
    except ModuleNotFoundError:
        return False
    return hasattr(constants, name)


checks_guards = _needs(
    "check_guards" in signature(ExportedProgram.module).parameters,
    "torch 2.8 and older store no guards in programs, and check none by them",
)

exports_generators = _needs(
    TORCH >= (2, 13), "torch 2.12 and older do not export calls with generators"
)

exports_vmap = _needs(
    find_spec("torch._functorch.predispatch") is not None,
    "torch 2.8 and older do not export torch.vmap, and leave its level open when they fail",
)

stores_vmap = _needs(TORCH >= (2, 13), "torch 2.12 and older do not write programs with torch.vmap")

STORES_WEIGHTS_APART = _pt2_archives_have("WEIGHTS_CONFIG_FILENAME_FORMAT")
"""Whether torch writes and reads PT2 archives of the layout of today."""

stores_weights_apart = _needs(
    STORES_WEIGHTS_APART,
    "torch 2.8 and older neither write nor read PT2 archives of the layout of today",
)

compiles_calls_inside = _needs(
    TORCH >= (2, 8), "Dynamo of torch 2.7 and older does not follow calls between archive modules"
)

exports_loops = _needs(TORCH >= (2, 8), "torch 2.7 and older do not export such loops")

exports_numbers = _needs(
    TORCH >= (2, 8), "torch 2.7 and older do not export numbers and sizes that stay open"
)

takes_trees_apart = _needs(
    TORCH >= (2, 8), "programs of torch 2.7 and older do not know such containers or their fields"
)
