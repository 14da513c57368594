"""What tests of files of ExecuTorch share: fixtures, the corpus, damage."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import tsarchive
from fixtures.executorch_samples import FILES

FIXTURES = Path(__file__).parents[1] / "fixtures" / "executorch"
CORPUS_KINDS = ("pte", "ptd", "bpte")
_MAGIC = {"pte": b"ET12", "ptd": b"FT01", "bpte": b"BP08"}
# What offsets, lengths and counts are when they are wrong in an interesting way.
_WORDS = (0, 1, 2, 3, 4, 8, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def opened(data: bytes) -> tsarchive.Archive:
    return tsarchive.open(io.BytesIO(data))


def edited(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def sound_files(corpus: Path, kind: str) -> list[Path]:
    """The files of the corpus that begin so, but for those that were damaged."""
    folders = (corpus / "pte", corpus / "ptd", corpus / "generated")
    paths = (path for folder in folders for path in sorted(folder.iterdir()) if path.is_file())
    return [path for path in paths if _magic(path) == _MAGIC[kind]]


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)[4:]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Fixtures with one to four damages each."""
    rng = random.Random(seed)
    originals = [make() for make in FILES.values()]
    for _ in range(count):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.randint(1, 4)):
            _damage(data, rng)
        yield bytes(data)


def _damage(data: bytearray, rng: random.Random) -> None:
    if len(data) < 16:
        return
    match rng.randrange(5):
        case 0:
            data[rng.randrange(len(data))] = rng.randrange(256)
        case 1:
            word = rng.choice((*_WORDS, rng.randrange(len(data)), rng.randrange(1 << 32)))
            struct.pack_into("<I", data, rng.randrange(len(data) - 4) & ~3, word)
        case 2:
            half = rng.choice((0, 4, 6, 8, rng.randrange(1 << 16)))
            struct.pack_into("<H", data, rng.randrange(len(data) - 2) & ~1, half)
        case 3:
            source, target = rng.randrange(len(data)), rng.randrange(len(data))
            piece = data[source : source + 8]
            data[target : target + len(piece)] = piece
        case _:
            del data[rng.randrange(len(data)) :]
