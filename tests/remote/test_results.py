"""Verbs on files elsewhere: what they return names files without credentials."""

from __future__ import annotations

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, ROOT
from tests.support.web_server import web_server

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

SEQUENTIAL = ARCHIVES / "sequential.pt"
SECRETS = PASSWORD, SIGNATURE = "hunter22", "5ecre7"


@pytest.fixture
def url():
    """The URL of an archive, with all that it needs and nobody is to see."""
    with web_server({"/m.pt": SEQUENTIAL.read_bytes()}) as server:
        yield f"{server.url.replace('//', f'//ann:{PASSWORD}@')}/m.pt?sig={SIGNATURE}"


VERBS = {
    "convert": lambda url: tsarchive.convert(url, "memory://results/m.pt"),
    "report": lambda url: (page := tsarchive.report(url, "memory://results/p.html"), page.html),
    "compare": lambda url: tsarchive.report(url, against=url).html,
    "diff": lambda url: tsarchive.diff(url, url),
    "diff with another": lambda url: tsarchive.diff(url, str(ARCHIVES / "buffers.pt")),
    "compat": tsarchive.compat,
    "audit": tsarchive.audit,
    "verify": tsarchive.verify,
    "jitter": tsarchive.check_jitter,
    "salvage": lambda url: tsarchive.salvage(url, "memory://results/s.safetensors", force=True),
    "load": tsarchive.load,
}


@pytest.mark.whole
@pytest.mark.parametrize("verb", VERBS)
def test_results_have_no_credentials(url, verb):
    told = repr(VERBS[verb](url))
    assert not [secret for secret in SECRETS if secret in told]


def test_saves_are_those_of_paths(tmp_path):
    module = tsarchive.load(SEQUENTIAL)
    tsarchive.save(module, tmp_path / "net.v2.pt")
    tsarchive.save(module, "memory://results/net.v2.pt")
    found = fsspec.filesystem("memory").cat("/results/net.v2.pt")
    assert found == (tmp_path / "net.v2.pt").read_bytes()


def test_nothing_is_saved_over_http(url):
    module = tsarchive.load(SEQUENTIAL)
    with pytest.raises(tsarchive.RemoteError, match="files are not written over HTTP") as found:
        tsarchive.save(module, url)
    assert not [secret for secret in SECRETS if secret in str(found.value)]


@pytest.mark.parametrize("name", ["linear.pte", "data.ptd"])
def test_files_of_executorch(name):
    path = ROOT / "fixtures" / "executorch" / name
    fsspec.filesystem("memory").put_file(path, f"/results/{name}")
    with tsarchive.open(path) as here, tsarchive.open(f"memory://results/{name}") as there:
        assert {n: here.read(n) for n in here.records} == {n: there.read(n) for n in there.records}


def test_one_reason_for_each_failure():
    """A name of a file that is not there does not stand twice in its error."""
    with pytest.raises(tsarchive.RemoteError) as found:
        tsarchive.diff("memory://results/none.pt", SEQUENTIAL)
    assert str(found.value).count("none.pt") == 1
