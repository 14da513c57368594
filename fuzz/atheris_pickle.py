"""Coverage-guided fuzzing of pickle records: reading them, and inspecting their contents."""

from __future__ import annotations

import atheris

with atheris.instrument_imports(include=["tsarchive"]):
    import torch_free

    import tsarchive
    from tsarchive.testing.mutated_archive import small_archive
    from tsarchive.testing.mutated_records import mutate_pickle

from atheris_support import fuzz
from pools import POOL


def run(data: bytes) -> None:
    for record in ("data.pkl", "code/__torch__.py.debug_pkl"):
        try:
            torch_free.read_pickle(small_archive(), record, data)
        except tsarchive.ArchiveError as error:
            str(error)


if __name__ == "__main__":
    fuzz(run, mutate_pickle, (seed.data for seed in POOL.pickles))
