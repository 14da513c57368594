"""Coverage-guided fuzzing of code records: definitions, signatures, needs."""

from __future__ import annotations

from random import Random

import atheris

with atheris.instrument_imports(include=["tsarchive"]):
    import torch_free

    import tsarchive
    from tsarchive.testing.mutated_archive import small_archive
    from tsarchive.testing.mutated_records import mutate_code

from atheris_support import fuzz
from pools import POOL

RECORD = "code/__torch__.py"


def run(data: bytes) -> None:
    for door in (torch_free.read_code, torch_free.read_needs):
        try:
            door(small_archive(), RECORD, data)
        except tsarchive.ArchiveError as error:
            str(error)


def mutate(data: bytes, random: Random) -> bytes:
    return mutate_code(data.decode(), random).encode("utf-8", "replace")


if __name__ == "__main__":
    fuzz(run, mutate, (seed.text.encode() for seed in POOL.code))
