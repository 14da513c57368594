"""Runs probes in fresh processes, alternating between the sides, and caches their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS, THEIRS = "tsarchive", "torch.jit"
SIDES = (OURS, THEIRS)
Found = dict[str, Any]
Readings = dict[str, list[Found]]
_PROBES = Path(__file__).with_name("probes.py")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # if set, imports compile, which an installation avoids


class ProbeFailed(Exception):
    """A process that failed or timed out; says which and why."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The location of archives, the settings of measurements, and earlier results.

    runs: processes of each side for each measurement;
    seconds: the time limit of one process;
    tell: a callback for progress messages.
    """

    folder: Path
    runs: int
    seconds: float
    tell: Callable[[str], None]
    _names: Found = field(default_factory=dict)
    _made: dict[tuple[str, str], Found] = field(default_factory=dict)
    _modules: dict[tuple[str, bool], list[str]] = field(default_factory=dict)
    _found: dict[str, Readings] = field(default_factory=dict)

    def names(self, group: str) -> list[tuple[str, str]]:
        """Return the networks of a group of `probes.names`, with their forms."""
        if not self._names:
            self._names.update(self._probe("names", THEIRS, {}))
        return [(name, form) for name, form in self._names[group]]

    def archive(self, name: str, form: str) -> Found:
        """Return the archive of a network, created on first use."""
        key = (name, form)
        if key not in self._made:
            self.tell(f"making {name} {form}")
            settings = {"name": name, "form": form, "folder": str(self.folder)}
            made = self._probe("make", THEIRS, settings)
            del made["modules"]  # imports of making a network are not those of probing it
            self._made[key] = settings | made
        return self._made[key]

    def forget(self, name: str, form: str) -> None:
        """Remove the archive of a network, which may be large."""
        made = self._made.pop((name, form))
        for key in ("path", "arguments"):
            Path(made[key]).unlink()

    def measured(
        self, probe: str, settings: Found, sides: tuple[str, ...] = SIDES, runs: int = 0
    ) -> Readings:
        """Return each run's results by side; the sides alternate, also in which goes first."""
        key = json.dumps([probe, settings, sides])
        if key not in self._found:
            self.tell(f"{probe} {settings['name']} {settings['form']}")
            warm = {**settings, **self._warmed(probe, settings)}
            found: Readings = {side: [] for side in sides}
            for run in range(runs or self.runs):
                for side in sides if run % 2 == 0 else sides[::-1]:
                    found[side].append(self._probe(probe, side, warm))
            self._found[key] = found
        return self._found[key]

    def _warmed(self, probe: str, settings: Found) -> Found:
        """Return what a probe imports before it measures, and the compile cache that it finds."""
        cache = {}
        if settings.get("cached"):
            cache = {"cache": str(self.folder / "cache")}
            self._probe(probe, OURS, settings | cache)
        if settings.get("imports_later"):
            return cache
        return {**cache, "modules": self.modules(probe, settings | cache)}

    def modules(self, probe: str, settings: Found) -> list[str]:
        """Return the modules of ours that a probe imports, in order; that run also warms caches."""
        key = probe, bool(settings.get("cache"))
        if key not in self._modules:
            self._modules[key] = self._probe(probe, OURS, settings)["modules"]
        return self._modules[key]

    def _probe(self, probe: str, side: str, settings: Found) -> Found:
        command = [sys.executable, str(_PROBES), probe, side, json.dumps(settings)]
        environment = {"TSARCHIVE_CACHE": "0", **os.environ, **_ONE_THREAD}
        environment.pop(_NO_BYTECODE, None)
        environment["TSARCHIVE_CACHE"] = settings.get("cache", "0")
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=self.seconds,
                env=environment,
                cwd=self.folder,
            )
        except subprocess.TimeoutExpired as error:
            raise ProbeFailed(f"{side} takes more than {self.seconds:g} seconds") from error
        if done.returncode:
            silent = f"the process ended with {done.returncode}"
            reason = (done.stderr.strip().splitlines() or [silent])[-1]
            raise ProbeFailed(f"{side}: {reason}")
        return json.loads(done.stdout.splitlines()[-1])
