"""The choice between our runner and the ExecuTorch runtime, which runs backends."""

from __future__ import annotations

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.formats.executorch.program import RECORD
from tsarchive.formats.executorch.regions import Regions
from tsarchive.formats.executorch.schema import require_known
from tsarchive.policy import Guard

from .data import Data
from .delegates import are_allowed, backends_of, can_run
from .importer import PteImporter
from .runtime_modules import DelegatedImporter


def importer_of_program(
    regions: Regions, device: torch.device | None, guard: Guard, data: Data | None
) -> PteImporter | DelegatedImporter:
    """Return an importer for the program.

    Raises UnsupportedError for data files, later versions and devices other than the CPU.
    """
    if device is not None and device.type != "cpu":
        raise UnsupportedError(
            f"a program of ExecuTorch runs on the CPU, not on {device}",
            hint="Leave out map_location",
        )
    program = regions.require_program()
    require_known(program.version, RECORD)
    if backends_of(program) and can_run() and are_allowed(program, guard.policy):
        return DelegatedImporter(regions, guard, data)
    return PteImporter(regions, guard, data)
