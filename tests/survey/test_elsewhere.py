"""Surveys of files on servers: what these are told, and what is made of what they send."""

from __future__ import annotations

import pytest

from tests.support.archives import ARCHIVES
from tests.support.web_server import Answer, Request, web_server
from tsarchive.container import caps, ranges
from tsarchive.errors import RemoteError
from tsarchive.surveying.listing import Listed, listed
from tsarchive.surveying.reading import Aspects, surveyed

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from tests.remote.test_http import answering, no_ranges  # noqa: E402
from tests.remote.test_http_trust import CREDENTIALS  # noqa: E402
from tests.remote.test_verbs import padded  # noqa: E402
from tests.support.remote_servers import configured, s3_server, sftp_server  # noqa: E402

MODEL = (ARCHIVES / "sequential.pt").read_bytes()
# Longer than the first request, so that it takes more of them.
LONG = padded(MODEL, "data/99")
SOME = Aspects(digest=False, weights=False, verify=False)
ASPECTS = pytest.mark.parametrize("aspects", [Aspects(), SOME], ids=["whole", "ranges"])


@pytest.fixture
def server():
    with web_server({"/model.pt": MODEL}) as started:
        yield started


def row_of(url: str, aspects: Aspects):
    (file,) = listed(url)
    return surveyed(file, aspects).file


@ASPECTS
@pytest.mark.parametrize("options", CREDENTIALS)
def test_credentials_go_to_the_server_that_was_named(server, aspects, options):
    with web_server({}) as first, configured("https", **options):
        fsspec.filesystem("https").clear_instance_cache()
        first.fault = answering(302, Location=f"{server.url}/model.pt")
        assert row_of(f"{first.url}/model.pt", aspects).status == "read"
        told = [value for request in first.requests for value in request.headers.values()]
    assert any("abcd" in value for value in told)
    assert server.requests
    for request in server.requests:
        assert not any("abcd" in value for value in request.headers.values())


@ASPECTS
def test_a_busy_server_is_asked_again(server, aspects):
    def busy_at_times(request: Request, answer: Answer) -> None:
        if request.number % 2 == 0:
            answering(503, Retry_After="0")(request, answer)

    server.fault = busy_at_times
    row = row_of(f"{server.url}/model.pt", aspects)
    assert (row.status, row.nbytes) == ("read", len(MODEL))


def test_a_listing_takes_no_bytes_of_a_file(server):
    def withholding(request: Request, answer: Answer) -> None:
        """Send the head of an answer alone: who waits for more finds a fault."""
        no_ranges(request, answer)
        answer.headers["Content-Length"], answer.sent = str(len(MODEL)), 0

    (ranged,) = listed(f"{server.url}/model.pt")
    server.fault = withholding
    (whole,) = listed(f"{server.url}/model.pt")
    assert ranged == whole
    assert (ranged.nbytes, ranged.version is not None) == (len(MODEL), True)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 404])
def test_what_the_server_refuses_is_told(server, status):
    server.fault = answering(status)
    with pytest.raises(RemoteError, match=str(status)):
        [*listed(f"{server.url}/model.pt")]


def test_a_file_that_is_replaced_meanwhile_has_failed(server):
    server.files["/model.pt"] = LONG

    def replacing(request: Request, answer: Answer) -> None:
        server.files["/model.pt"] = LONG[::-1]

    (file,) = listed(f"{server.url}/model.pt")
    server.fault = replacing
    row = surveyed(file, Aspects()).file
    assert row.status == "failed"
    assert "another one" in row.problem


def test_verbs_share_what_was_fetched(server):
    """No part is asked for twice, and so a row is of one version."""
    server.files["/model.pt"] = LONG
    assert row_of(f"{server.url}/model.pt", SOME).status == "read"
    asked = [request.headers["Range"] for request in server.requests]
    assert len(asked) == len(set(asked)) == 3


def test_a_copy_of_several_pieces_is_whole(server, monkeypatch):
    server.files["/model.pt"] = LONG
    whole = row_of(f"{server.url}/model.pt", Aspects())
    monkeypatch.setattr(ranges, "_COPIED_BYTES", 50_001)
    assert row_of(f"{server.url}/model.pt", Aspects()) == whole
    assert whole.nbytes == len(LONG)


def test_copies_are_bounded(server, monkeypatch):
    monkeypatch.setattr(caps, "MAX_COPIED_BYTES", len(MODEL) - 1)
    row = row_of(f"{server.url}/model.pt", Aspects())
    assert row.status == "failed"
    assert "not read into memory" in row.problem


def test_files_by_sftp_are_surveyed(tmp_path):
    pytest.importorskip("paramiko", reason="paramiko reads by SFTP")
    pytest.importorskip("asyncssh", reason="asyncssh has the server of SFTP")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a::b.pt").write_bytes(MODEL)
    with sftp_server(tmp_path) as url:
        (file,) = listed(f"{url}/below")
        assert surveyed(file, Aspects()).file.status == "read"
        wrong = url.replace("hunter22", "wrongpass1")
        with pytest.raises(RemoteError, match="Authentication") as raised:
            [*listed(f"{wrong}/below")]
        assert "wrongpass1" not in str(raised.value)
        failed = surveyed(Listed("", "x", f"{wrong}/below/x.pt"), SOME).file
    assert (failed.status, "wrongpass1" in failed.problem) == ("failed", False)


def test_objects_are_surveyed_by_their_keys():
    pytest.importorskip("s3fs", reason="s3fs reads from S3")
    pytest.importorskip("moto.server", reason="moto has the server of S3")
    keys = ["/a.pt", "b//c.pt", "b/d.pt", "e::https://host/f.pt", "g?h#i.pt"]
    with s3_server() as root:
        filesystem, bucket = fsspec.url_to_fs(root)
        for key in keys:
            filesystem.pipe_file(f"{bucket}/{key}", MODEL)
        rows = [surveyed(file, Aspects()).file for file in listed(root)]
    assert sorted(row.path for row in rows) == keys
    assert {row.status for row in rows} == {"read"}
