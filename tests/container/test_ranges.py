"""A file elsewhere: what is asked for, how ranges are merged, bounds, and servers that lie."""

from __future__ import annotations

import gzip
import io
import os
import random
import threading
import zipfile
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import tsarchive
from tests.support.elsewhere import CountedRanges, Seekable
from tsarchive import RemoteLimits, Traffic
from tsarchive.container import Container, NewRecord, write_container
from tsarchive.container.caps import MAX_COPIED_BYTES
from tsarchive.container.opening import open_source
from tsarchive.container.ranges import RangedSource
from tsarchive.container.source import PartOfSource, Span
from tsarchive.container.traffic import watched_by
from tsarchive.errors import FormatError, LimitError, RemoteError
from tsarchive.remote.ranges import Tail

MIB = 1 << 20
TAIL, GAP = 128 << 10, 64 << 10
DATA = random.Random(1).randbytes(4 * MIB)


def archive(records: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    write_container(stream, [NewRecord(name, data) for name, data in records.items()])
    return stream.getvalue()


def _has_the_first(source: RangedSource) -> bool:
    """Return whether the first MiB is there, and what follows is refused."""
    try:
        source.piece(0, MIB + 1)
    except RemoteError as error:
        return "forked from" in error.message and source.piece(0, MIB) == DATA[:MIB]
    return False


class TestPieces:
    def test_the_end_is_the_first_request(self):
        ranges = CountedRanges(DATA)
        source = RangedSource(ranges)
        assert (source.size, source.is_elsewhere, source.is_sparing) == (len(DATA), True, True)
        assert source.piece(len(DATA) - TAIL, len(DATA)) == DATA[-TAIL:]
        assert ranges.asked == [(len(DATA) - TAIL, len(DATA))]

    def test_who_watches_is_told_of_each_part(self, monkeypatch):
        monkeypatch.setattr("tsarchive.container.ranges._COPIED_BYTES", MIB)
        ranges = CountedRanges(DATA)
        source = RangedSource(ranges)
        told: list[str] = []
        with watched_by(told.append):
            source.prefetch([Span(0, 10), Span(MIB // 2, 2 * MIB)])
        source.fetch_all()
        assert source.piece(0, len(DATA)) == DATA
        assert len(set(told)) == 1
        assert [step.share for step in told] == [TAIL / (4 * MIB), (TAIL + MIB) / (4 * MIB)]
        parts = [(0, 10), (MIB // 2, MIB * 3 // 2 - 10), (MIB * 3 // 2 - 10, 2 * MIB)]
        assert ranges.asked[1:4] == parts
        assert source.traffic == Traffic(len(ranges.asked), len(DATA))

    def test_a_small_file_is_not_elsewhere_any_more(self):
        ranges = CountedRanges(DATA[:1000])
        source = RangedSource(ranges)
        assert not source.is_elsewhere
        assert not source.is_sparing
        assert bytes(source.data) == DATA[:1000]
        assert source.traffic == ranges.traffic == Traffic(1, 1000)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_process_has_what_was_fetched_and_no_more(self):
        source = RangedSource(CountedRanges(DATA))
        source.prefetch([Span(0, MIB)])
        with source._lock:  # as another thread may have it when the process is forked
            child = os.fork()
            if child == 0:
                os._exit(0 if _has_the_first(source) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert source.piece(MIB, 2 * MIB) == DATA[MIB : 2 * MIB]

    def test_an_empty_file(self):
        source = RangedSource(CountedRanges(b""))
        assert (source.size, bytes(source.data), bytes(source.piece(0, 9))) == (0, b"", b"")

    @pytest.mark.parametrize(
        ("spans", "asked"),
        [
            pytest.param([(0, 10), (10 + GAP, 20 + GAP)], [(0, 20 + GAP)], id="near"),
            pytest.param([(0, 9), (10 + GAP, 20 + GAP)], [(0, 9), (10 + GAP, 20 + GAP)], id="far"),
            pytest.param([(50, 60), (0, 10), (5, 55)], [(0, 60)], id="out of order"),
            pytest.param([(5, 5), (9, 7)], [], id="empty"),
            pytest.param([(-5, 3)], [(0, 3)], id="before the file"),
            pytest.param([(len(DATA), 1 << 70)], [], id="behind the file"),
            pytest.param([(len(DATA) - TAIL - 5, 1 << 70)],
                         [(len(DATA) - TAIL - 5, len(DATA) - TAIL)], id="up to what is there"),
        ],
    )  # fmt: skip
    def test_spans_are_merged(self, spans, asked):
        ranges = CountedRanges(DATA)
        RangedSource(ranges).prefetch(Span(*span) for span in spans)
        assert ranges.asked[1:] == asked

    def test_nothing_is_asked_for_twice(self):
        ranges, draw = CountedRanges(DATA), random.Random(7)
        source = RangedSource(ranges)
        for _ in range(300):
            start = draw.randrange(len(DATA))
            stop = start + draw.randrange(1, 1 << draw.randrange(1, 18))
            assert source.piece(start, stop) == DATA[start:stop]
        got = sorted(ranges.asked)
        assert all(before[1] <= after[0] for before, after in pairwise(got))
        assert source.traffic == ranges.traffic

    def test_bytes_that_are_there_are_not_written_to_again(self):
        source = RangedSource(CountedRanges(DATA))
        view = source.piece(1000, 2000)
        view[:] = bytes(1000)
        source.prefetch([Span(0, 10), Span(3000, 3010)])
        assert source.piece(0, 3010) == DATA[:1000] + bytes(1000) + DATA[2000:3010]

    def test_a_part_asks_within_the_whole(self):
        ranges = CountedRanges(DATA)
        part = PartOfSource(RangedSource(ranges), 1000, 2000)
        assert part.piece(990, 5000) == DATA[1990:2000]
        assert (part.size, part.is_elsewhere, part.is_sparing) == (1000, True, True)
        assert part.traffic == ranges.traffic == Traffic(2, TAIL + 10)

    def test_threads_get_the_same_bytes(self):
        ranges = CountedRanges(DATA)
        source = RangedSource(ranges)
        wrong: list[int] = []

        def read(seed: int) -> None:
            draw = random.Random(seed)
            for start in (draw.randrange(len(DATA) - 5000) for _ in range(100)):
                if source.piece(start, start + 5000) != DATA[start : start + 5000]:
                    wrong.append(start)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert ranges.traffic.nbytes <= len(DATA)


class TestServersThatLie:
    def test_a_size_beyond_all_memory(self):
        class Endless(CountedRanges):
            def tail(self, count: int) -> Tail:
                return Tail(1 << 60, bytes(count))

        ranges = Endless(b"")
        with pytest.raises(FormatError, match="not read into memory") as caught:
            RangedSource(ranges)
        assert caught.value.limit == MAX_COPIED_BYTES
        assert ranges.is_closed

    def test_an_end_that_is_longer_than_the_file(self):
        class Short(CountedRanges):
            def tail(self, count: int) -> Tail:
                return Tail(10, bytes(count))

        ranges = Short(b"")
        with pytest.raises(RemoteError, match="has 10 bytes, and its end 131,072"):
            RangedSource(ranges)
        assert ranges.is_closed

    def test_an_end_that_is_shorter_than_what_was_asked_for(self):
        class Scant(CountedRanges):
            def tail(self, count: int) -> Tail:
                return super().tail(3)

        source = RangedSource(Scant(DATA[:1000]))
        assert source.is_elsewhere
        assert bytes(source.data) == DATA[:1000]

    def test_a_range_that_fails_is_asked_for_again(self):
        class Failing(CountedRanges):
            fails = True

            def read_into(self, wanted):
                if self.fails:
                    wanted[0][1][:1] = b"?"
                    raise RemoteError("the connection was lost")
                super().read_into(wanted)

        ranges = Failing(DATA)
        source = RangedSource(ranges)
        with pytest.raises(RemoteError, match="lost"):
            source.piece(0, 10)
        ranges.fails = False
        assert source.piece(0, 10) == DATA[:10]


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "hint"),
        [
            (RemoteLimits(requests=1), "RemoteLimits(requests=2)"),
            (RemoteLimits(nbytes=TAIL + 9), f"RemoteLimits(nbytes={TAIL + 10})"),
        ],
    )
    def test_more_is_refused(self, limits, hint):
        ranges = CountedRanges(DATA)
        with limits.in_force():
            source = RangedSource(ranges)
        with pytest.raises(LimitError, match=r"mem://net\.pt has cost") as caught:
            source.piece(0, 10)
        assert hint in caught.value.hint
        assert ranges.asked == ranges.asked[:1]

    def test_the_limit_itself_is_allowed(self):
        with RemoteLimits(requests=2, nbytes=TAIL + 10).in_force():
            source = RangedSource(CountedRanges(DATA))
        assert source.piece(0, 10) == DATA[:10]

    def test_the_first_request_asks_for_no_more(self):
        ranges = CountedRanges(DATA)
        with RemoteLimits(nbytes=9).in_force():
            source = RangedSource(ranges)
        assert source.traffic == Traffic(1, 9)
        with pytest.raises(LimitError, match="has cost 9 bytes, and 10 more"):
            source.piece(0, 10)

    @pytest.mark.parametrize("limits", [RemoteLimits(requests=0), RemoteLimits(nbytes=0)])
    def test_nothing_is_asked_for_where_nothing_is_allowed(self, limits):
        ranges = CountedRanges(DATA)
        with limits.in_force(), pytest.raises(LimitError, match="has cost 0"):
            RangedSource(ranges)
        assert (ranges.asked, ranges.is_closed) == ([], True)

    def test_they_end_with_the_block(self):
        with RemoteLimits(requests=1).in_force():
            pass
        assert RangedSource(CountedRanges(DATA)).piece(0, 10) == DATA[:10]

    def test_what_reads_all_is_not_bound(self):
        with RemoteLimits(requests=1, nbytes=1).in_force():
            source = RangedSource(CountedRanges(DATA))
        source.fetch_all()
        assert bytes(source.data) == DATA
        assert not source.is_sparing

    def test_a_public_verb_tells_the_way_out(self):
        data = archive({"data.pkl": bytes(MIB), "version": b"3\n", "data/0": bytes(MIB)})
        with (
            RemoteLimits(nbytes=MIB // 2).in_force(),
            pytest.raises(LimitError, match="are asked for"),
        ):
            tsarchive.open(Seekable(data))


class TestRecords:
    BIG = archive({f"data/{i}": DATA[i * MIB : (i + 1) * MIB] for i in range(4)})

    def test_a_record_costs_one_request(self):
        ranges = CountedRanges(self.BIG)
        with Container.of_source(RangedSource(ranges)) as container:
            assert len(ranges.asked) == 1
            assert container.read("data/1") == DATA[MIB : 2 * MIB]
            assert container.payload("data/0") == DATA[:MIB]
            assert container.view("data/1")[:5] == DATA[MIB : MIB + 5]
        assert len(ranges.asked) == 3
        assert ranges.is_closed

    def test_records_that_are_asked_for_together_cost_one(self):
        ranges = CountedRanges(self.BIG)
        with Container.of_source(RangedSource(ranges)) as container:
            container.prefetch(["data/2", "data/0", "data/1"])
            assert [container.read(f"data/{i}")[:9] for i in range(3)] == [
                DATA[i * MIB : i * MIB + 9] for i in range(3)
            ]
        assert len(ranges.asked) == 2

    def test_an_offset_takes_the_header_alone(self):
        ranges = CountedRanges(self.BIG)
        with Container.of_source(RangedSource(ranges)) as container:
            offset = container.records["data/2"].offset
        assert self.BIG[offset : offset + MIB] == DATA[2 * MIB : 3 * MIB]
        assert len(ranges.asked) == 2
        assert ranges.traffic.nbytes < TAIL + 200

    def test_a_record_that_is_an_archive_gives_its_ends(self):
        data = archive({"net.pt": self.BIG, "data/9": DATA[:MIB]})
        ranges = CountedRanges(data)
        with Container.of_source(RangedSource(ranges)) as container:
            inner = container.inside("net.pt")
            assert list(inner.records)[:4] == [f"data/{i}" for i in range(4)]
            assert len(ranges.asked) == 3
            assert ranges.traffic.nbytes < TAIL + (110 << 10)
            assert inner.read("data/3") == DATA[3 * MIB :]

    @pytest.mark.parametrize("elsewhere", [True, False])
    def test_an_archive_inside_stays_open_as_far_as_it_is_there(self, elsewhere, tmp_path):
        data = archive({"net.pt": archive({"a": b"abc", "b": DATA[:MIB]}), "data/9": DATA[:MIB]})
        path = tmp_path / "net.pt"
        path.write_bytes(data)
        outer = Container.open(Seekable(data) if elsewhere else path)
        inner = outer.inside("net.pt")
        outer.close()
        assert inner.read("a") == b"abc"
        if elsewhere:
            with pytest.raises(tsarchive.ArchiveError, match="is closed"):
                inner.read("b")
        else:
            assert inner.read("b") == DATA[:MIB]

    @pytest.mark.parametrize("made", [io.BytesIO, Seekable])
    @pytest.mark.parametrize("ask", ["read", "view", "payload", "part", "inside"])
    def test_a_record_that_is_not_there(self, made, ask):
        with (
            Container.open(made(self.BIG)) as container,
            pytest.raises(tsarchive.MissingRecordError, match="no such record"),
        ):
            getattr(container, ask)("data/4")

    def test_an_entry_behind_the_directory_is_refused_as_in_a_file(self, tmp_path):
        data = bytearray(archive({"data.pkl": b"\x80\x02N.", "data/0": DATA, "version": b"3\n"}))
        entry = data.rindex(b"PK\x01\x02")
        data[entry + 42 : entry + 46] = (len(data) - 30).to_bytes(4, "little")
        path = tmp_path / "net.pt"
        path.write_bytes(data)
        for verb in (tsarchive.open, tsarchive.verify, tsarchive.audit):
            assert _outcome(verb, Seekable(bytes(data))) == _outcome(verb, path)

    def test_a_container_that_is_closed_tells_so(self):
        container = Container.of_source(RangedSource(CountedRanges(self.BIG)))
        container.close()
        for asks in (lambda: container.read("data/0"), lambda: container.traffic,
                     lambda: container.prefetch(["data/0"])):  # fmt: skip
            with pytest.raises(tsarchive.ArchiveError, match="closed"):
                asks()


def _outcome(verb: Callable[[Any], Any], file: Any) -> str:
    try:
        return repr(verb(file))
    except tsarchive.FormatError as error:
        return str(error)


class TestFileObjects:
    """Which objects are read by ranges, from their position on, and what becomes of them."""

    ARCHIVE = archive({"data.pkl": b"\x80\x02}q\x00.", "version": b"3\n", "data/0": DATA})

    def test_only_what_is_needed_is_read(self):
        file = Seekable(self.ARCHIVE)
        with Container.open(file) as container:
            assert container.read("version") == b"3\n"
        assert file.nbytes < 200 << 10
        assert not file.closed

    def test_it_is_read_from_its_position_on(self):
        file = Seekable(b"x" * 1000 + self.ARCHIVE)
        file.seek(1000)
        with Container.open(file) as container:
            assert container.read("data/0") == DATA

    @pytest.mark.parametrize(
        "made",
        [
            pytest.param(io.BytesIO, id="in memory"),
            pytest.param(lambda d: _gzip(d), id="gzip"),
            pytest.param(lambda d: io.BufferedReader(_gzip(d)), id="gzip with a buffer"),
            pytest.param(lambda d: _member(d), id="member of a zip"),
            pytest.param(lambda d: _Unseekable(d), id="pipe"),
        ],
    )  # fmt: skip
    def test_others_are_read_whole_and_not_needed_afterwards(self, made):
        file = made(self.ARCHIVE)
        source = open_source(file)
        file.close()
        assert source.traffic is None
        assert not source.is_elsewhere
        assert source.data == self.ARCHIVE

    def test_one_that_was_closed_too_early(self):
        file = Seekable(self.ARCHIVE)
        with Container.open(file) as container:
            file._stream.close()
            with pytest.raises(RemoteError, match="closed") as caught:
                container.read("data/0")
        assert "open as long as the archive" in caught.value.hint

    def test_one_that_has_become_shorter(self):
        file = Seekable(self.ARCHIVE)
        with Container.open(file) as container:
            file._stream.truncate(1000)
            with pytest.raises(RemoteError, match="shorter since it was opened"):
                container.read("data/0")

    def test_text_is_refused(self):
        with pytest.raises(tsarchive.CallError, match="opened as text"):
            Container.open(io.StringIO("x" * 100))


def _gzip(data: bytes) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data, 1)))


def _member(data: bytes) -> object:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        packed.writestr("net.pt", data)
    return zipfile.ZipFile(stream).open("net.pt")


class _Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False
