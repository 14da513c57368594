"""Files that were mixed, shifted or changed on their way: what happened is named, with places."""

from __future__ import annotations

import gzip
import io

import pytest
import torch

import tsarchive
from tests.support.archives import FIXTURES


def network(seed: int, width: int = 64) -> bytes:
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    written = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Sequential(*layers)), written)
    return written.getvalue()


A, B, WIDE = network(1), network(2), network(3, 80)
PROGRAM = (FIXTURES / "executorch" / "add.pte").read_bytes()
HALF = 20_000
DIRECTORY = b"PK\x01\x02"
END = f"{len(A):,}"
assert len(A) == len(B)

# Name: the file, the rule of a finding, and what its message says.
MIXED = {
    "two files": (A + WIDE, "file-two-in-one", (f"ends at byte {END}", "archive/data/0")),
    "two of one size": (A + B, "file-two-in-one", (f"ends at byte {END}", "an archive")),
    "the second is cut": (A + WIDE[:HALF], "file-two-in-one", (f"ends at byte {END}",)),
    "the second is long and cut": (
        A + network(4, 200)[:100_000], "file-two-in-one", (f"ends at byte {END}", "an archive"),
    ),
    "the first is cut": (
        A[:HALF] + WIDE, "file-two-in-one", ("part of one ends at byte 20,000", "an archive"),
    ),
    "head of one, tail of another": (
        A[:HALF] + B[HALF:], "file-two-in-one",
        ("archive/data/0 to archive/data/1", "ends at byte 16,784", "from byte 33,232 on"),
    ),
    "head of another shape": (
        WIDE[:HALF] + A[HALF:], "file-two-in-one", ("between byte 0 and byte 33,232",),
    ),
    "a page behind": (
        A + b"<html><body>error</body></html>", "file-two-in-one", (END, "a web page"),
    ),
    "a program behind": (A + PROGRAM, "file-two-in-one", (END, "an ExecuTorch program")),
    "zeros behind": (A + bytes(5000), "file-shifted", (END, "5,000 zeros")),
    "resumed too early": (
        A[:HALF] + A[HALF - 2000 :], "file-shifted",
        ("2,000 bytes too many", "byte 16,784 (record archive/data/2)", "resumed too early"),
    ),
    "resumed too far on": (
        A[: HALF - 2000] + A[HALF:], "file-shifted", ("2,000 bytes are missing", "byte 16,784"),
    ),
    "byte order mark": (b"\xef\xbb\xbf" + A, "file-shifted", ("byte order mark", "an archive")),
    "byte order mark before a program": (
        b"\xef\xbb\xbf" + PROGRAM, "file-shifted", ("byte order mark", "an ExecuTorch program"),
    ),
    "headers in front": (
        b"HTTP/1.1 200 OK\r\n\r\n" + A, "file-shifted", ("19 bytes stand in front",),
    ),
    "without its head": (A[1000:], "file-shifted", ("first 1,000 bytes are missing",)),
    "hole": (
        A[:4096] + bytes(8192) + A[12288:], "file-hole", ("zeros from byte 4,096 to 12,288",),
    ),
    "hole over headers": (
        A[:16500] + bytes(2000) + A[18500:], "file-hole", ("zeros from byte ", " to 18,500"),
    ),
    "zeros at the end": (
        A[:HALF] + bytes(len(A) - HALF), "file-cut-short", (f"from byte 20,000 of {END}", "zeros"),
    ),
    "zeros at the end of a program": (
        PROGRAM[:100] + bytes(len(PROGRAM) - 100), "file-cut-short", ("from byte ", "zeros"),
    ),
    "zeros for an end record": (A[:-60] + bytes(60), "file-cut-short", ("from byte ", "zeros")),
    "another end": (
        A[:-60] + b"x" * 60, "file-two-in-one",
        (f"no end record behind its directory, which begins at byte {A.index(DIRECTORY):,}",),
    ),
    "line ends of Windows": (A.replace(b"\n", b"\r\n"), "file-text-mode", ("carriage return",)),
    "read as UTF-8": (
        A.decode("utf-8", "replace").encode(), "file-text-mode", ("no UTF-8 have been replaced",),
    ),
    "a program behind a program": (
        PROGRAM * 2, "file-two-in-one",
        (f"the first ends at byte {len(PROGRAM)}", "an ExecuTorch program"),
    ),
    "gzip": (gzip.compress(A), "file-gzip", ("compressed with gzip",)),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_what_happened_is_named(name):
    data, rule, words = MIXED[name]
    report = tsarchive.verify(io.BytesIO(data))
    assert report.verdict in ("broken", "another kind")
    (found,) = [finding for finding in report.findings if finding.rule == rule]
    assert all(word in found.message for word in words), found.message


@pytest.mark.parametrize("name", ["two files", "resumed too early", "byte order mark"])
def test_opening_says_the_same(name):
    data, _, words = MIXED[name]
    with pytest.raises(tsarchive.FormatError) as caught:
        tsarchive.open(io.BytesIO(data))
    assert all(word in caught.value.message for word in words)
    assert caught.value.hint


PLACES = {
    "two files": len(A), "the first is cut": HALF, "byte order mark": 3, "hole": 4096,
    "zeros at the end": HALF, "head of one, tail of another": 33_232, "headers in front": 19,
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_the_place_is_a_number_as_well(name):
    data, rule, _ = MIXED[name]
    findings = tsarchive.verify(io.BytesIO(data)).findings
    assert [finding.offset for finding in findings if finding.rule == rule] == [PLACES[name]]


FIRST_NAME = len(b"archive/data/0")
# torch begins data at multiples of 64.
FIRST_DATA = 64


@pytest.mark.parametrize("cut", [4, 40, FIRST_DATA, FIRST_DATA + 1])
def test_an_archive_behind_one_that_is_cut_in_its_head(cut):
    findings = tsarchive.verify(io.BytesIO(A[:cut] + WIDE)).findings
    (found,) = [finding for finding in findings if finding.rule.startswith("file-")]
    assert (found.rule, found.offset) == ("file-two-in-one", cut)


@pytest.mark.parametrize("size", [4, 30, 30 + FIRST_NAME - 1, 30 + FIRST_NAME])
def test_a_name_is_told_where_all_of_it_is_there(size):
    (found, *_) = tsarchive.verify(io.BytesIO(A + WIDE[:size])).findings
    name = ", with record archive/data/0" if size == 30 + FIRST_NAME else ""
    assert found.message.endswith(f"where another begins: an archive{name}")


@pytest.mark.parametrize("cut", [7, 100, 16_500, 33_000])
def test_the_head_of_any_other_version_is_noticed(cut):
    report = tsarchive.verify(io.BytesIO(A[:cut] + B[cut:]))
    assert report.verdict in ("broken", "sound")
    assert report.ok == (A[:cut] + B[cut:] in (A, B))


def test_a_flipped_bit_is_no_second_file():
    damaged = bytearray(A)
    damaged[3000] ^= 1
    rules = {finding.rule for finding in tsarchive.verify(io.BytesIO(damaged)).findings}
    assert rules == {"zip-crc"}


def test_a_sound_file_is_not_diagnosed():
    for data in (A, WIDE, PROGRAM):
        assert tsarchive.verify(io.BytesIO(data)).ok
