"""What an opened archive says of itself where Python shows it."""

from __future__ import annotations

import io

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.web_server import web_server

TWO_MODELS = FIXTURES / "pt2" / "two_models.pt2"


@pytest.mark.parametrize("path", [
    ARCHIVES / "sequential.pt", TWO_MODELS, FIXTURES / "executorch" / "linear.pte",
], ids=lambda path: path.suffix)  # fmt: skip
def test_name_kind_size_and_records(path):
    with tsarchive.open(path) as archive:
        size, count = f"{path.stat().st_size:,}", len(archive.records)
        told = f"<Archive {str(path)!r}: {archive.kind}, {{}}, {count} records>"
        assert repr(archive) == told.format(f"{size} bytes")
    assert repr(archive) == told.format("closed")


def test_other_views_of_a_file_have_its_name():
    with tsarchive.open(TWO_MODELS) as archive:
        names = archive.exported.models
        assert repr(archive.only(next(iter(names)))) == repr(archive)


def test_what_has_no_name():
    data = (ARCHIVES / "sequential.pt").read_bytes()
    with tsarchive.open(io.BytesIO(data)) as archive:
        assert repr(archive).startswith(f"<Archive: torchscript, {len(data):,} bytes, ")


def test_credentials_are_not_shown():
    pytest.importorskip("aiohttp")
    data = (ARCHIVES / "sequential.pt").read_bytes()
    with web_server({"/net.pt": data}) as server:
        archive = tsarchive.open(f"{server.url}/net.pt?token=hunter22")
    assert repr(archive).startswith(f"<Archive '{server.url}/net.pt': torchscript, ")
