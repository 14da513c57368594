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
class _Worker:
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


class WorkerPool:
    """Keeps ``processes`` worker processes busy."""

    def __init__(
        self, processes: int, seed: int, watch: Watch, ledger: Ledger, *, quiet: bool
    ) -> None:
        self._processes = processes
        self._seed = seed
        self._watch = watch
        self._ledger = ledger
        self._quiet = quiet
        self._workers: list[_Worker] = []
        self._shown = 0.0

    def run(self, work: list[Stretch]) -> None:
        """Run all ranges to their ends."""
        waiting = list(reversed(work))
        while waiting or self._workers:
            while waiting and len(self._workers) < self._processes:
                self._launch(waiting.pop(), Counter())
            ready, _, _ = select.select([worker.pipe for worker in self._workers], [], [], 1.0)
            for worker in [worker for worker in self._workers if worker.pipe in ready]:
                self._hear(worker)
            for worker in self._workers:
                self._check(worker)
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
        self._workers.append(_Worker(stretch, process, receiving, progress, counts, begin))

    def _hear(self, worker: _Worker) -> None:
        heard = os.read(worker.pipe, 1 << 16)
        if not heard:
            self._ended(worker)
            return
        *lines, worker.rest = (worker.rest + heard).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "violation" in message:
                self._violation(message["violation"])
            else:
                worker.counts.update(message["counts"])
                worker.told = message["done"]

    def _ended(self, worker: _Worker) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
        number = worker.number
        os.close(worker.pipe)
        worker.progress.close()
        self._workers.remove(worker)
        if status == 0:
            self._ledger.finished(worker.stretch, worker.counts)
            return
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        problem = f"the process ended with {name}"
        self._violation({"layer": worker.stretch.layer, "number": number, "error": problem})
        worker.counts["process: violation"] += 1
        worker.counts["process: not told"] += number - worker.told
        if number + 1 < worker.stretch.stop:
            self._launch(worker.stretch, worker.counts, number + 1)
        else:
            self._ledger.finished(worker.stretch, worker.counts)

    def _check(self, worker: _Worker) -> None:
        """Kill a process that makes no progress."""
        number, now = worker.number, time.monotonic()
        if number != worker.at:
            worker.at, worker.moved = number, now
        elif now - worker.moved > _STUCK_SECONDS:
            os.kill(worker.process, signal.SIGKILL)
            worker.moved = now

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
        at = ", ".join(f"{worker.stretch.layer} {worker.number:,}" for worker in self._workers)
        print(f"{self._ledger.inputs:,} inputs done, {waiting} stretches wait; at {at}", flush=True)
