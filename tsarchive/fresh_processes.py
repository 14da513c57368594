"""The canonical form as saved by fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .errors import ArchiveError
from .policy import Policy

if TYPE_CHECKING:
    import torch

_SAVE = """
import sys, tsarchive
archive, device, model, target, trusted, *allowed = sys.argv[1:]
policy = tsarchive.Policy(frozenset(allowed), bool(trusted))
module = tsarchive.load(archive, map_location=device or None, policy=policy, model=model or None)
tsarchive.save(module, target, canonical=True)
"""
# Hash seeds: 0 disables randomization of hashes.
_SEEDS = ("0", "4242")


def canonical_saves(
    archive: bytes,
    map_location: str | torch.device | None,
    policy: Policy,
    model: str | None = None,
) -> list[bytes]:
    """Return the canonical form of an archive as saved by fresh processes, one per hash seed.

    Raises ArchiveError when one of them fails, such as for lack of a library of this process.
    """
    with TemporaryDirectory() as folder:
        source = Path(folder, "archive.pt")
        source.write_bytes(archive)
        places = [Path(folder, f"process{seed}") for seed in _SEEDS]
        device = "" if map_location is None else str(map_location)
        pairs = zip(_SEEDS, places, strict=True)
        trusted = "trusted" if policy.is_trusting else ""
        terms = [device, model or "", "canonical.pt", trusted, *policy.allowed]
        started = [_start(seed, place, [str(source), *terms]) for seed, place in pairs]
        failures = [process.communicate()[1] for process in started]
        for process, failure in zip(started, failures, strict=True):
            if process.returncode:
                raise ArchiveError(f"a fresh process cannot save the canonical form: {failure}")
        return [(place / "canonical.pt").read_bytes() for place in places]


def _start(seed: str, place: Path, arguments: list[str]) -> subprocess.Popen[str]:
    place.mkdir()
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", _SAVE, *arguments],
        cwd=place,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
