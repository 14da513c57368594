"""What notebooks and rich show: small tables of escaped text, without script."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest
import torch
from rich.console import Console
from rich.pretty import Pretty
from torch import nn

import tsarchive
from tests.support.archives import ARCHIVES, loaded, saved
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.notebook import MOST_ROWS, table

FIXTURE = ARCHIVES / "sequential.pt"
ALLOWED = {"table", "caption", "tr", "td", "th"}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[object] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def archive():
    with tsarchive.open(FIXTURE) as opened:
        return opened._repr_html_()


def other():
    return tsarchive.diff(FIXTURE, ARCHIVES / "buffers.pt")._repr_html_()


SHOWN = {
    "archive": (archive, "torchscript"),
    "verify": (lambda: tsarchive.verify(FIXTURE)._repr_html_(), "sound"),
    "audit": (lambda: tsarchive.audit(FIXTURE)._repr_html_(), "torchscript"),
    "fingerprint": (lambda: tsarchive.fingerprint(FIXTURE)._repr_html_(), "tsf1:"),
    "diff": (other, "class"),
    "module": (lambda: tsarchive.load(FIXTURE)._repr_html_(), "Sequential"),
    "finding": (
        lambda: Finding(
            "r", Severity.ERROR, Nature.BROKEN, "<script>alert(1)</script>"
        )._repr_html_(),
        "&lt;script&gt;",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_tables_of_text_alone(name):
    show, word = SHOWN[name]
    text = show()
    found = Tags(text)
    assert set(found.tags) <= ALLOWED
    assert found.attributes == []
    assert len(text) < 40_000
    assert word in text


def test_long_tables_say_what_is_left_out():
    text = table("numbers", ([number] for number in range(1000)), total=1000)
    assert text.count("<tr>") == MOST_ROWS + 1
    assert f"and {1000 - MOST_ROWS} more" in text


def test_a_network_of_many_modules_is_small():
    net = loaded(saved(torch.jit.script(nn.Sequential(*(nn.ReLU() for _ in range(200))))))
    assert re.search(r"and \d+ more", net._repr_html_())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: Finding("zip-x", Severity.INFO, Nature.UNUSUAL, "odd", record="data.pkl"),
         ("rule='zip-x'", "record='data.pkl'")),
        (lambda: tsarchive.fingerprint(FIXTURE), ("model='tsf1:", "tensors=")),
        (lambda: tsarchive.load(FIXTURE), ("layers=",)),
    ],
)  # fmt: skip
def test_rich_shows_what_counts(value, words):
    out = io.StringIO()
    Console(file=out, width=200).print(Pretty(value()))
    for word in words:
        assert word in out.getvalue()
    assert "hint" not in out.getvalue()
