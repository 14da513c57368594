"""URLs: what is one, and what its name leaves out."""

from __future__ import annotations

import doctest
import json
import os
import pickle
from pathlib import Path

import pytest

import tsarchive.remote.urls
from tests.support.archives import ARCHIVES
from tsarchive.archive import open as opened
from tsarchive.remote import is_url, located
from tsarchive.remote.urls import Url, shown

NAMES = {
    "https://example.org/a/model.pt": "https://example.org/a/model.pt",
    "https://ann:secret@example.org/model.pt": "https://example.org/model.pt",
    "https://t0ken@example.org:8443/model.pt": "https://example.org:8443/model.pt",
    "HTTPS://t0ken@example.org/model.pt": "HTTPS://example.org/model.pt",
    "https://ann:a/b@c?d#e@example.org/model.pt": "https://example.org/model.pt",
    "https://example.org:8443/pkg@1.0/model.pt": "https://example.org:8443/pkg@1.0/model.pt",
    "https://example.org/model.pt?X-Amz-Signature=s#f": "https://example.org/model.pt",
    "https://example.org/model.pt?to=a::b:secret": "https://example.org/model.pt",
    "ssh://ann:secret@example.org/model.pt": "ssh://ann@example.org/model.pt",
    "abfs://box@store.example.org/model.pt": "abfs://box@store.example.org/model.pt",
    "hf://ann/model@v1/model.pt": "hf://ann/model@v1/model.pt",
    "s3://bucket/model.pt?versionId=1": "s3://bucket/model.pt",
    "memory://model.pt": "memory://model.pt",
    "zip://in/model.pt::https://ann:secret@example.org/all.zip?sig=1":
        "zip://in/model.pt::https://example.org/all.zip",
    "simplecache::https://ann:secret@example.org/m.pt":
        "simplecache::https://example.org/m.pt",
    "zip://m.pt::simplecache::s3://bucket/all.zip": "zip://m.pt::simplecache::s3://bucket/all.zip",
}  # fmt: skip
PATHS = ("model.pt", "/a/model.pt", "C:\\model.pt", "C://model.pt", "a/b://c", "a::b", "://x", "")


@pytest.mark.parametrize("url", NAMES)
def test_names(url):
    found = located(url)
    assert is_url(found)
    assert found == f"{found}" == str(found) == shown(url) == NAMES[url]
    assert json.dumps([found]) == json.dumps([NAMES[url]])
    assert located(found) is found


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_no_urls(path):
    assert located(path) is path
    assert not is_url(path)
    assert located(Path(path)) == Path(path)


@pytest.mark.parametrize("url", NAMES)
def test_requests_find_the_whole(url):
    """Whatever passes them on."""
    for found in (located(url), str(located(url)), os.fspath(located(url)),
                  os.fsdecode(located(url)), pickle.loads(pickle.dumps(located(url)))):  # fmt: skip
        assert isinstance(found, Url)
        assert found.full == url


@pytest.mark.parametrize(("text", "told"), [
    ("no answer from {}", "no answer from https://example.org/m.pt"),
    ("refused: 's1gnature'", "refused: '***'"),
    ("wrong password pass%20word", "wrong password ***"),
    ("wrong password pass word", "wrong password ***"),
    ("at ftp://me:other@example.org/x?y=1, then", "at ftp://me@example.org/x then"),
    ("nothing", "nothing"),
])  # fmt: skip
def test_texts_of_others(text, told):
    url = "https://ann:pass%20word@example.org/m.pt?sig=s1gnature&v=1"
    assert Url(url).hidden(text.replace("{}", url)) == told


def test_files_of_this_machine_need_no_package():
    path = ARCHIVES / "sequential.pt"
    for url in (path.as_uri(), f"file://localhost{path}", f"local://{path}"):
        assert located(url) == str(path)
        with opened(url) as archive:
            assert archive.kind == "torchscript"
    assert located("file:///a%20b.pt") == "/a b.pt"


def test_the_example():
    assert doctest.testmod(tsarchive.remote.urls).failed == 0
