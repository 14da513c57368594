"""Coverage-guided fuzzing of opening, reading, verifying and auditing archives."""

from __future__ import annotations

import atheris

with atheris.instrument_imports(include=["tsarchive"]):
    import torch_free

    import tsarchive
    from tsarchive.testing.mutated_archive import mutate_archive

from atheris_support import fuzz
from pools import POOL


def run(data: bytes) -> None:
    for door in (torch_free.read_archive, torch_free.verify, torch_free.audit):
        try:
            door(data)
        except tsarchive.ArchiveError as error:
            str(error)


if __name__ == "__main__":
    fuzz(run, mutate_archive, POOL.archives)
