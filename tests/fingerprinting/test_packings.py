"""A model packed otherwise, or saved again, has its fingerprint and no difference."""

from __future__ import annotations

import io
import random

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS, FIXTURES

from .packings import PACKINGS, RESAVES, archives, is_same, records_in

FILES = [
    *(ARCHIVES / f"{name}.pt" for name in ("sequential", "trace_convolution")),
    FIXTURES / "old" / "1.10.0" / "tables.pt",
    FIXTURES / "old" / "1.13.1" / "phone_lite.ptl",
    FIXTURES / "legacy" / "kinds-1.2.0.pt",
    FIXTURES / "pt2" / "linear.pt2",
    FIXTURES / "pt2_old" / "2.1.2" / "several.pt2",
]
REAL = archives([CORPUS / "torchscript", CORPUS / "pt2"]) if CORPUS.exists() else []
# torch has no more layers that are packed for phones, so neither it nor we load them to be saved.
_PLAIN = [kind for kind in PACKINGS if kind not in ("saved again", "canonical")]


@pytest.mark.parametrize("kind", PACKINGS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_packing_makes_no_difference(path, kind):
    data = path.read_bytes()
    try:
        made = PACKINGS[kind](data, records_in(data), random.Random(kind))
    except (tsarchive.ArchiveError, RuntimeError):
        assert kind == "saved again by torch", kind
        return
    if made is not None:
        assert made != data or kind in RESAVES
        assert is_same(data, made, kind)


@pytest.mark.skipif(not REAL, reason="the corpus is not here")
@pytest.mark.long("test_packing_makes_no_difference")
def test_packing_of_real_files_makes_no_difference():
    """A third of the files, each in one of the ways, in turn."""
    tried = 0
    for number, path in enumerate(REAL[::3]):
        data = path.read_bytes() if path.stat().st_size < 1 << 18 else b""
        kind = _PLAIN[number % len(_PLAIN)]
        try:
            tsarchive.fingerprint(io.BytesIO(data))
            made = PACKINGS[kind](data, records_in(data), random.Random(path.name))
        except (tsarchive.ArchiveError, RuntimeError):
            continue
        if made is not None and kind != "saved again by torch":
            assert is_same(data, made, kind), (path, kind)
            tried += 1
    assert tried > 20


def test_renamed_twins_on_disk_are_the_same(tmp_path):
    twin = tmp_path / "other name.bin"
    twin.write_bytes((ARCHIVES / "sequential.pt").read_bytes())
    report = tsarchive.diff(ARCHIVES / "sequential.pt", twin)
    assert report.same
    assert tsarchive.fingerprint(twin) == tsarchive.fingerprint(ARCHIVES / "sequential.pt")
