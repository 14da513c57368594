"""Worker processes that run inputs in parallel; one that dies is reported and replaced."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from child import PROGRESS, Stretch, run_stretch
from ledger import Ledger
from watch import Watch

# An input that takes this many seconds of wall-clock time is hung, even for the timer.
_STUCK_SECONDS = 120.0
_PROGRESS_EVERY = 10.0


@dataclass(eq=False)
class _Ship:
    """A worker process with its range of inputs, and its reports so far."""

    stretch: Stretch
    process: int
    pipe: int
    progress: mmap.mmap
    counts: Counter[str]
    told: int
    at: int = -1
    moved: float = field(default_factory=time.monotonic)
    rest: bytes = b""

    @property
    def number(self) -> int:
        """The input that it is running."""
        number: int = PROGRESS.unpack_from(self.progress)[0]
        return number


class Fleet:
    """Keeps ``processes`` worker processes busy."""

    def __init__(
        self, processes: int, seed: int, watch: Watch, ledger: Ledger, *, quiet: bool
    ) -> None:
        self._processes = processes
        self._seed = seed
        self._watch = watch
        self._ledger = ledger
        self._quiet = quiet
        self._ships: list[_Ship] = []
        self._shown = 0.0

    def run(self, work: list[Stretch]) -> None:
        """Run all ranges to their ends."""
        waiting = list(reversed(work))
        while waiting or self._ships:
            while waiting and len(self._ships) < self._processes:
                self._launch(waiting.pop(), Counter())
            ready, _, _ = select.select([ship.pipe for ship in self._ships], [], [], 1.0)
            for ship in [ship for ship in self._ships if ship.pipe in ready]:
                self._hear(ship)
            for ship in self._ships:
                self._check(ship)
            self._show(len(waiting))

    def _launch(self, stretch: Stretch, counts: Counter[str], start: int | None = None) -> None:
        progress = mmap.mmap(-1, PROGRESS.size)
        begin = stretch.start if start is None else start
        PROGRESS.pack_into(progress, 0, begin)
        receiving, sending = os.pipe()
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            os.close(receiving)
            part = Stretch(stretch.layer, begin, stretch.stop)
            status = 1
            try:
                run_stretch(part, self._seed, self._watch, sending, progress)
                status = 0
            finally:
                os._exit(status)
        os.close(sending)
        self._ships.append(_Ship(stretch, process, receiving, progress, counts, begin))

    def _hear(self, ship: _Ship) -> None:
        heard = os.read(ship.pipe, 1 << 16)
        if not heard:
            self._ended(ship)
            return
        *lines, ship.rest = (ship.rest + heard).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "violation" in message:
                self._violation(message["violation"])
            else:
                ship.counts.update(message["counts"])
                ship.told = message["done"]

    def _ended(self, ship: _Ship) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(ship.process, 0)[1])
        number = ship.number
        os.close(ship.pipe)
        ship.progress.close()
        self._ships.remove(ship)
        if status == 0:
            self._ledger.finished(ship.stretch, ship.counts)
            return
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        problem = f"the process ended with {name}"
        self._violation({"layer": ship.stretch.layer, "number": number, "error": problem})
        ship.counts["process: violation"] += 1
        ship.counts["process: not told"] += number - ship.told
        if number + 1 < ship.stretch.stop:
            self._launch(ship.stretch, ship.counts, number + 1)
        else:
            self._ledger.finished(ship.stretch, ship.counts)

    def _check(self, ship: _Ship) -> None:
        """Kill a process that makes no progress."""
        number, now = ship.number, time.monotonic()
        if number != ship.at:
            ship.at, ship.moved = number, now
        elif now - ship.moved > _STUCK_SECONDS:
            os.kill(ship.process, signal.SIGKILL)
            ship.moved = now

    def _violation(self, problem: dict[str, Any]) -> None:
        if self._ledger.violation(problem) and not self._quiet:
            place = f"{problem['layer']}:{problem['number']}"
            print(
                f"VIOLATION {place} {problem['error'][:200]} {problem.get('place', '')}", flush=True
            )

    def _show(self, waiting: int) -> None:
        now = time.monotonic()
        if self._quiet or now - self._shown < _PROGRESS_EVERY:
            return
        self._shown = now
        at = ", ".join(f"{ship.stretch.layer} {ship.number:,}" for ship in self._ships)
        print(f"{self._ledger.inputs:,} inputs done, {waiting} stretches wait; at {at}", flush=True)
