"""What rows tell together: as if counted one by one, in any order, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter, defaultdict
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.suite import examples
from tests.support.survey_rows import FILES, file, finding
from tsarchive.surveying import grouping
from tsarchive.surveying.grouping import Count, Groups, Place, Tally
from tsarchive.surveying.summary import RuleCount, SizeCount, WriterCount, summarise

TALLIED = ("operators", "effects", "libraries", "dtypes", "devices")


@settings(max_examples=examples(200))
@given(FILES, st.randoms())
def test_the_order_of_files_changes_nothing(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert summarise(shuffled) == summarise(rows)


@settings(max_examples=examples(200))
@given(FILES)
def test_counts_are_those_of_the_rows(rows):
    found = summarise(rows)
    assert found.files == len(rows) == sum(kind.files for kind in found.kinds)
    assert found.nbytes == sum(row.nbytes or 0 for row in rows)
    assert found.statuses == Counter(row.status for row in rows)
    assert {(k.kind, k.status): k.files for k in found.kinds} == Counter(
        (row.kind, row.status) for row in rows
    )
    for column in TALLIED:
        having = Counter(chain.from_iterable({*getattr(row, column)} for row in rows))
        told = getattr(found, column)
        assert {count.name: count.files for count in told.items} == having
        assert told.total == len(having)
    spans = Counter((r.torch_first, r.torch_last) for r in rows if r.torch_first and r.torch_last)
    assert {(w.first, w.last): w.files for w in found.writers} == spans
    assert found.loadable == sum(bool(row.loads_on) for row in rows)
    assert {r.torch: r.loads for r in found.releases if r.loads} == Counter(
        chain.from_iterable(row.loads_on for row in rows)
    )


@settings(max_examples=examples(200))
@given(FILES, st.sampled_from(["model", "sha256"]))
def test_twins_are_the_files_that_share_a_digest(rows, column):
    groups = defaultdict(list)
    for row in rows:
        if getattr(row, column):
            groups[getattr(row, column)].append(row)
    twins = {digest: group for digest, group in groups.items() if len(group) > 1}
    found = getattr(summarise(rows), f"by_{column}")
    assert {group.digest for group in found.largest.items} == twins.keys()
    assert found.largest.total == len(twins)
    for group in found.largest.items:
        sizes = [row.nbytes or 0 for row in twins[group.digest]]
        assert (group.files, group.nbytes) == (len(sizes), sum(sizes))
        assert group.saved_nbytes == sum(sizes) - min(sizes)
        first = sorted(Place(row.root, row.path) for row in twins[group.digest])
        assert group.places == tuple(first[:3])
    assert found.saved_nbytes == sum(group.saved_nbytes for group in found.largest.items)
    assert found.files == sum(map(len, twins.values()))


def test_lists_are_as_long_as_was_asked_for():
    rows = [file(f"{n:02}", operators=(f"op{n % 7}",), errors=n % 5, model=f"{n % 9}", nbytes=n)
            for n in range(60)]  # fmt: skip
    whole, short = summarise(rows), summarise(rows, largest=3)
    assert short.operators.items == whole.operators.items[:3]
    assert (short.operators.total, short.operators.left_out) == (7, 4)
    assert short.by_model.largest.items == whole.by_model.largest.items[:3]
    assert short.by_model.saved_nbytes == whole.by_model.saved_nbytes > 0
    assert short.troubles.items == whole.troubles.items[:3]
    assert short.troubles.total == whole.troubles.total == 48
    assert [trouble.errors for trouble in short.troubles.items] == [4, 4, 4]


def test_what_could_not_be_read_comes_first():
    rows = [
        file("fine"), file("noted", notes=3), file("warned", warnings=1), file("bad", errors=2),
        file("died", status="crashed", problem="signal 9"), file("web page", status="foreign"),
        file("half", status="refused", errors=5),
    ]  # fmt: skip
    troubles = summarise(rows).troubles
    assert [trouble.place.path for trouble in troubles.items] == ["died", "half", "bad", "warned"]
    assert troubles.items[0].problem == "signal 9"


def test_findings_are_counted_by_rule_and_by_file():
    rows = [
        finding("a"), finding("a"), finding("b"), finding("b", root="other"),
        finding("b", root="other", rule="zip-gap", verb="verify", severity="warning",
                nature="unusual"),
        finding("c", severity="info"),
    ]  # fmt: skip
    found = summarise([], rows)
    assert found.rules.items == (
        RuleCount("pickle-call", "audit", "error", "hostile", 4, 3),
        RuleCount("zip-gap", "verify", "warning", "unusual", 1, 1),
        RuleCount("pickle-call", "audit", "info", "hostile", 1, 1),
    )
    assert found.severities == {"error": 4, "warning": 1, "info": 1}
    assert summarise([], rows, largest=1).severities == found.severities


def test_sizes_are_counted_by_doublings():
    rows = [file(str(n), nbytes=n) for n in (0, 1, 2, 3, 4, 7, 8)]
    assert summarise([*rows, file("unknown")]).sizes == (
        SizeCount(0, 1), SizeCount(1, 1), SizeCount(2, 2), SizeCount(4, 2), SizeCount(8, 1),
    )  # fmt: skip


def test_releases_come_in_their_order():
    rows = [
        file("a", torch_first="2.9", torch_last="2.10", loads_on=("2.9", "2.10")),
        file("b", torch_first="1.13", torch_last="1.13", loads_on=("1.13", "2.9", "2.10")),
        file("c"),
    ]
    found = summarise(rows)
    assert found.writers == (WriterCount("1.13", "1.13", 1), WriterCount("2.9", "2.10", 1))
    assert [*map(str, found.writers)] == ["1.13", "2.9 to 2.10"]
    assert [release.torch for release in found.releases] == ["1.13", "2.9", "2.10"]
    assert found.loads_all == ("2.9", "2.10")


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=())), st.integers(0, 9))))
def test_names_beyond_the_bound_are_counted_on_disk(names):
    held, spilled = Tally(), Tally()
    with pytest.MonkeyPatch.context() as patch:
        for name, nbytes in names:
            held.add(name, nbytes)
        patch.setattr(grouping, "_HELD", 2)
        for name, nbytes in names:
            spilled.add(name, nbytes)
        for most in (2, 100):
            assert spilled.largest(most) == held.largest(most)
    counts = Counter(name for name, _ in names)
    assert {count.name: count.files for count in held.largest(100).items} == counts


def test_a_tally_can_be_asked_twice(monkeypatch):
    monkeypatch.setattr(grouping, "_HELD", 2)
    tally = Tally()
    for name in "abca":
        tally.add(name, 1)
    assert tally.largest(1) == tally.largest(1)
    assert tally.largest(1).items == (Count("a", 2, 2),)


def test_the_first_file_of_a_digest_is_that_of_the_alphabet():
    groups = Groups()
    for path in ("b", "a", "ä", "\ud800"):
        groups.add("d", Place("r", path), 1)
    assert groups.first("d") == Place("r", "a")
    assert groups.first("e") is None


def test_places_are_paths_and_urls():
    assert str(Place("", "a.pt")) == "a.pt"
    assert str(Place("models/", "x/a.pt")) == "models/x/a.pt"
    assert str(Place("s3://bucket", "a.pt")) == "s3://bucket/a.pt"
    assert str(Place("zip://::s3://bucket/all.zip", "a.pt")) == "zip://a.pt::s3://bucket/all.zip"


def peak(count):
    """The most memory that Python holds while so many rows are summarised."""
    rows = (
        file(f"{n:09}", model=f"{n:064}", sha256=f"{n + 1:064}", operators=(f"op{n}",), errors=1)
        for n in range(count)
    )
    tracemalloc.start()
    try:
        assert summarise(rows, largest=10).files == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_rows(monkeypatch):
    monkeypatch.setattr(grouping, "_HELD", 500)
    monkeypatch.setattr("tsarchive.surveying.summary._SPARE", 500)
    few, many = peak(2_000), peak(8_000)
    assert many < few + 50_000
