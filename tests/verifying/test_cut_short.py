"""Files that are cut short: by how much, in the same words from every verb."""

from __future__ import annotations

import io
import random
import re

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.suite import is_long
from tsarchive.container.extent import Extent

_TOLD = re.compile(
    r"cut short: (?P<present>[\d,]+) of (?P<least>at least )?(?P<total>[\d,]+) bytes are here, "
    r"(?:at least )?(?P<missing>[\d,]+) bytes? (?:is|are) missing"
)
_TENSORS = {
    "weight": torch.arange(1000.0),
    "list": [torch.ones(3, dtype=torch.int8)],
    "half": torch.ones(7, dtype=torch.bfloat16)[2:],
}


def checkpoint(**options) -> bytes:
    written = io.BytesIO()
    torch.save(_TENSORS, written, **options)
    return written.getvalue()


FILES = {
    "torchscript": (ARCHIVES / "sequential.pt").read_bytes(),
    "no constants": (FIXTURES / "old" / "1.7.1" / "div.pt").read_bytes(),
    "before torch 1.3": (FIXTURES / "legacy" / "attributes-1.1.0.pt").read_bytes(),
    "pt2 of files": (FIXTURES / "pt2" / "shared-2.8.pt2").read_bytes(),
    "torch.save": checkpoint(),
    "torch.save before 1.6": checkpoint(_use_new_zipfile_serialization=False),
    **{path.name: path.read_bytes() for path in sorted((FIXTURES / "executorch").iterdir())},
}
ALL = sorted(
    path
    for suffix in ("pt", "pt2", "pte", "ptd", "bpte")
    for path in FIXTURES.rglob(f"*.{suffix}")
    if "hostile" not in path.parts
)


def told(report: tsarchive.VerifyReport) -> tuple[int, bool, int, int] | None:
    """Return the bytes that are here, whether the whole is known, it, and what is missing."""
    for finding in report.findings:
        found = _TOLD.search(f"{finding.message} {finding.hint}")
        if found is not None:
            present, total, missing = (
                int(found[name].replace(",", "")) for name in ("present", "total", "missing")
            )
            return present, found["least"] is None, total, missing
    return None


def check_cut(data: bytes, size: int) -> bool:
    """Check what is said of the first bytes of a file; return whether the whole is told."""
    report = tsarchive.verify(io.BytesIO(data[:size]))
    assert not report.ok
    assert report.verdict not in ("sound", "unusual")
    found = told(report)
    if found is None:
        return False
    present, is_exact, total, missing = found
    assert present == size
    assert missing == total - size > 0
    assert total == len(data) if is_exact else total <= len(data)
    return is_exact


@pytest.mark.parametrize("name", FILES)
def test_the_told_numbers_are_right(name):
    data = FILES[name]
    drawn = random.Random(name).sample(range(len(data)), 25)
    for size in {*drawn, 0, 1, 3, 30, *range(len(data) - 8, len(data))}:
        check_cut(data, size)


def test_every_file_cut_anywhere():
    draw = random.Random(0)
    for path in ALL if is_long() else draw.sample(ALL, 20):
        data = path.read_bytes()
        for size in draw.sample(range(len(data)), 8 if is_long() else 2):
            check_cut(data, size)


@pytest.mark.parametrize("name", ["torchscript", "torch.save", "before torch 1.3"])
def test_the_size_is_known_where_the_directory_has_begun(name):
    data = FILES[name]
    begin = data.index(b"PK\x01\x02")
    assert all(check_cut(data, size) for size in range(begin + 4, len(data), 7))


@pytest.mark.parametrize("name", ["torch.save before 1.6", "state.pte", "data.ptd"])
def test_the_size_is_known_where_the_head_tells_it(name):
    data = FILES[name]
    assert check_cut(data, len(data) - 10)


def test_the_values_of_a_checkpoint_tell_the_sizes_of_its_storages():
    data = checkpoint()
    present, is_exact, total, _ = told(tsarchive.verify(io.BytesIO(data[:1500])))
    assert (present, is_exact) == (1500, False)
    # All but paddings, and records that no other names.
    assert len(data) - 700 < total <= len(data)


@pytest.mark.parametrize("name", ["torchscript", "pt2 of files", "state.pte"])
def test_opening_and_loading_say_the_same(name):
    data = FILES[name][: len(FILES[name]) - 300]
    (finding, *_) = tsarchive.verify(io.BytesIO(data)).findings
    for verb in (tsarchive.open, tsarchive.load, tsarchive.fingerprint):
        with pytest.raises(tsarchive.FormatError) as caught:
            verb(io.BytesIO(data))
        assert (caught.value.message, caught.value.hint) == (finding.message, finding.hint)


def test_large_files_are_told_in_mib():
    half = Extent(412 << 20, (987 << 20) - 5, is_exact=False)
    assert half.message.startswith("it is cut short: 412 of at least 987 MiB are here, at least ")
    last = Extent((987 << 20) - 1, 987 << 20, is_exact=True)
    assert last.message == "it is cut short: 986 of 987 MiB are here, 1 byte is missing"


# These have no head that tells their size; what is missing at least stands in the hint alone.
_WITHOUT_SIZE = {"before torch 1.3", "add.pte", "inline.pte", "linear.bpte", "values.pte"}


@pytest.mark.parametrize("name", sorted(FILES.keys() - _WITHOUT_SIZE))
def test_sizes_are_fields_as_well(name):
    data = FILES[name]
    report = tsarchive.verify(io.BytesIO(data[: len(data) * 9 // 10]))
    found = told(report)
    assert found is not None
    present, is_exact, total, _ = found
    assert report.expected_nbytes is not None
    assert report.expected_nbytes >= report.nbytes
    if report.kind is None:
        assert (report.nbytes, report.expected_nbytes) == (present, total)
        assert report.is_least is not is_exact
    assert tsarchive.verify(io.BytesIO(data)).expected_nbytes is None


def test_zeros_up_to_the_full_size_are_no_missing_bytes():
    data = FILES["torchscript"]
    for kept in range(100, len(data) - 512, 50):
        report = tsarchive.verify(io.BytesIO(data[:kept].ljust(len(data), b"\0")))
        (found,) = (each for each in report.findings if each.rule == "file-cut-short")
        assert f"of {len(data):,} on there are only zeros" in found.message
        assert found.offset is not None
        assert found.offset <= kept


@pytest.mark.parametrize("filling", [b"\0", b"x", b"PK"])
@pytest.mark.parametrize("name", ["torchscript", "torch.save", "before torch 1.3"])
def test_no_bytes_are_missing_of_a_directory_whose_end_is_overwritten(name, filling):
    data = FILES[name]
    begin = data.index(b"PK\x01\x02")
    for kept in range(begin + 4, len(data) - 8, 31):
        for more in (0, 1000):
            size = len(data) + more
            damaged = data[:kept] + (filling * size)[: size - kept]
            report = tsarchive.verify(io.BytesIO(damaged))
            assert not report.ok
            assert told(report) is None, kept
            assert report.expected_nbytes is None


def test_rescue_is_offered_where_bytes_are_missing():
    for name in ("torchscript", "torch.save", "torch.save before 1.6", "pt2 of files"):
        report = tsarchive.verify(io.BytesIO(FILES[name][:-100]))
        assert "--salvage" in (report.findings[0].hint or "")
