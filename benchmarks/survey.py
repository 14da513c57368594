"""How long surveys of many files take, and what is left of them where workers are killed.

    python benchmarks/survey.py [--json] [--workers N] [--files N] [--mixed N]

``archives``: 10,000 archives of about 100 kB, of several networks with weights of their own, with
everything but weights. ``killed``: 5,000 files of the fixtures' kinds, hostile and broken ones
among them, while one of the processes that read is killed every ten seconds; its rows are compared
with those that one process gives, which take the ``seconds alone``. ``lost`` counts files without a
row, ``other`` rows that differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

import torch  # noqa: E402
from measured import measured, table  # noqa: E402
from torch import nn  # noqa: E402

import tsarchive  # noqa: E402
from tsarchive.container import NewRecord, write_container  # noqa: E402
from tsarchive.container.serialization_id import RECORD_NAME  # noqa: E402
from tsarchive.surveying.listing import listed  # noqa: E402
from tsarchive.surveying.reader import Job  # noqa: E402
from tsarchive.surveying.rows import Surveyed  # noqa: E402
from tsarchive.surveying.running import local_cluster, read_here, read_on_cluster  # noqa: E402

COLUMNS = (
    "survey", "files", "workers", "seconds", "files/s", "seconds alone", "kills", "lost", "other",
)  # fmt: skip
KILL_EVERY = 10.0
READER = "tsarchive.surveying.child"
FIXTURES = ROOT / "fixtures"
SOUND = ("archives", "executorch", "legacy", "old", "pt2", "pt2_old", "removed")
SUFFIXES = (".pt", ".pt2", ".pte", ".ptd", ".pth", ".ptl")
SHARE = 20
"""One file in so many is hostile, and one is broken."""


class Block(nn.Module):
    """A residual block of a network for images."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


def networks() -> Iterator[nn.Module]:
    """Yield networks whose archives have about 100 kB."""
    yield nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 96), nn.Linear(96, 10))
    for channels, blocks in ((16, 3), (20, 2), (12, 4)):
        inner = [Block(channels) for _ in range(blocks)]
        yield nn.Sequential(nn.Conv2d(3, channels, 3), *inner, nn.Flatten())
    yield nn.Sequential(nn.Embedding(300, 64), nn.LayerNorm(64), nn.Linear(64, 32), nn.Tanh())


def write_archives(folder: Path, count: int) -> None:
    """Write archives of these networks, each with weights of its own."""
    random_bytes = random.Random(0).randbytes
    templates = []
    for number, network in enumerate(networks()):
        path = folder / f"template-{number}.pt"
        tsarchive.save(torch.jit.script(network.eval()), path)
        with tsarchive.open(path) as archive:
            templates.append({n: archive.read(n) for n in archive.records if n != RECORD_NAME})
        path.unlink()
    for number in range(count):
        records = [
            NewRecord(name, random_bytes(len(data)) if name.startswith("data/") else data)
            for name, data in templates[number % len(templates)].items()
        ]
        target = folder / f"{number % 100:02}" / f"{number}.pt"
        target.parent.mkdir(exist_ok=True)
        write_container(target, records)


def write_mixed(folder: Path, count: int) -> None:
    """Write files of all kinds that the fixtures have, also hostile ones, and break some."""
    chance = random.Random(0)
    sound = [p for name in SOUND for p in sorted((FIXTURES / name).rglob("*")) if is_model(p)]
    hostile = [p for p in sorted((FIXTURES / "hostile").iterdir()) if is_model(p)]
    for number in range(count):
        place = number % SHARE
        source = chance.choice(hostile if place == 0 else sound)
        data = bytearray(source.read_bytes())
        if place == 1:
            broken(data, chance)
        target = folder / f"{number % 100:02}" / f"{number}{source.suffix}"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)


def is_model(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.is_file()


def broken(data: bytearray, chance: random.Random) -> None:
    """Cut a file short, or change a byte of it."""
    at = chance.randrange(len(data))
    if chance.random() < 0.5:
        del data[at:]
    else:
        data[at] ^= 0xFF


def readers() -> list[int]:
    """Return the processes that read files for this one."""
    import psutil

    children = psutil.Process().children()
    return [each.pid for each in children if any(READER in part for part in each.cmdline())]


@contextmanager
def killing(pids: Callable[[], list[int]], kills: list[int]) -> Iterator[None]:
    """Kill one of these processes every ten seconds."""
    done, chance = threading.Event(), random.Random(0)

    def kill() -> None:
        while not done.wait(KILL_EVERY):
            if there := pids():
                kills.append(chance.choice(there))
                os.kill(kills[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def archives_row(folder: Path, count: int, workers: int) -> dict[str, object]:
    write_archives(folder, count)
    begun = time.monotonic()
    found = tsarchive.survey(folder, folder / "out", workers=workers, weights=False)
    seconds = time.monotonic() - begun
    lost = count - sum(row.status == "read" for row in found.dataset.files())
    return row("archives", count, workers, seconds, lost=lost)


def killed_row(folder: Path, count: int, workers: int) -> dict[str, object]:
    write_mixed(folder, count)
    files, job, kills = [*listed(str(folder))], Job(seconds=60), list[int]()
    begun = time.monotonic()
    with local_cluster(workers) as client, killing(readers, kills):
        found = by_key(read_on_cluster(client, files, job))
    seconds, begun = time.monotonic() - begun, time.monotonic()
    alone = by_key(read_here(files, job))
    own = {
        "alone": round(time.monotonic() - begun, 1),
        "kills": len(kills),
        "lost": len(files) - len(found),
        "other": sum(found[key] != each for key, each in alone.items() if key in found),
    }
    return row("killed", count, workers, seconds, **own)


def by_key(batches: Iterable[Sequence[Surveyed]]) -> dict[tuple[str, str], Surveyed]:
    return {each.key: each for some in batches for each in some}


def row(
    name: str, files: int, workers: int, seconds: float,
    *, alone: float | str = "", kills: int = 0, lost: int, other: int = 0,
) -> dict[str, object]:  # fmt: skip
    rate = round(files / seconds, 1)
    values = (name, files, workers, round(seconds, 1), rate, alone, kills, lost, other)
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--mixed", type=int, default=5_000)
    options = parser.parse_args()
    rows = []
    for measure, count in ((archives_row, options.files), (killed_row, options.mixed)):
        if count:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(Path(folder), count, options.workers))
    print(json.dumps(rows, indent=2) if options.json else f"{table(COLUMNS, rows)}\n\n{measured()}")


if __name__ == "__main__":
    main()
