"""Archives that torch wrote without checksums: sound as far as can be seen, and told so."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.container.forging import forge, member
from tests.support.archives import ARCHIVES
from tests.support.verifying import records, verified

RECORDS = records(ARCHIVES / "pre_hook.pt")
STORAGES = [name for name in RECORDS if name.startswith("data/")]
EVIL = b"cos\nsystem\n(X\x04\x00\x00\x00exittR."


def unsummed(names, contents=RECORDS) -> bytes:
    """An archive in which the CRC-32 of these records is zero."""
    return forge(
        *(
            member(f"m/{name}", data, **({"crc": 0} if name in names else {}))
            for name, data in contents.items()
        )
    )


@pytest.mark.parametrize("names", [list(RECORDS), STORAGES], ids=["all", "storages"])
def test_records_without_checksums_are_noted(names):
    data = unsummed(names)
    report = verified(data)
    assert report.ok
    assert report.verdict == "unusual"
    (note,) = (finding for finding in report.findings if finding.rule == "zip-no-crc")
    assert note.message.startswith(f"{len(names)} records have no checksum")
    assert tsarchive.load(io.BytesIO(data)).training


@pytest.mark.parametrize("names", [["data.pkl"], [*STORAGES, "data.pkl"], ["version"]])
def test_a_single_record_of_checksum_zero_is_damaged(names):
    report = verified(unsummed(names))
    assert report.verdict == "broken"
    assert {f.record for f in report.findings if f.rule == "zip-crc"} >= set(names) - set(STORAGES)


def test_audits_look_into_pickles_without_checksums():
    data = unsummed(["data.pkl", "version"], {"data.pkl": EVIL, "version": b"3\n"})
    found = tsarchive.audit(io.BytesIO(data)).findings
    assert any("system" in finding.message for finding in found)


def test_what_is_saved_again_has_checksums(tmp_path):
    module = tsarchive.load(io.BytesIO(unsummed(list(RECORDS))))
    tsarchive.save(module, tmp_path / "again.pt")
    assert tsarchive.verify(tmp_path / "again.pt").verdict == "sound"


@pytest.mark.skipif(
    not hasattr(torch.serialization, "set_crc32_options"), reason="this torch has no such option"
)
def test_checkpoints_without_checksums_are_whole():
    written = io.BytesIO()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"weight": torch.ones(3)}, written)
    finally:
        torch.serialization.set_crc32_options(True)
    assert verified(written.getvalue()).verdict == "another kind"
    assert tsarchive.audit(io.BytesIO(written.getvalue())).ok
