"""The places where a pickle may begin, and the walks that are not begun."""

from __future__ import annotations

import pickle
import random
import re

import pytest

from tsarchive.scanning import pickle_streams
from tsarchive.scanning.pickle_names import Budget, Budgets

_NAME = rb"[A-Za-z_][\w.]*"
_TEXT = _NAME + rb"(?:\x94|q.|r.{4})?(?:\x8c.|X..\0\0)[A-Za-z_]"
_TOGETHER = re.compile(
    rb"\x80[\x02-\x05]|\n" + _NAME + rb"\n|\x8c." + _TEXT + rb"|X..\0\0" + _TEXT, re.DOTALL
)
_BUDGET = 1 << 20


def chance(seed: int, alphabet: bytes, size: int = 1 << 14) -> bytes:
    return bytes(random.Random(seed).choices(alphabet, k=size))


DATA = {
    "bytes": chance(1, bytes(range(256))),
    "opcodes": chance(2, b"\x80\x02\x03\n.c(]}q\x94\x8c\x01XR0aosb\0"),
    "lines": chance(3, b"\nab_.c"),
    "texts": chance(4, b"\x8cX\0a\x94q\x01"),
    "pickles": b"\0".join(pickle.dumps(len, protocol) for protocol in range(5)) * 9,
}


@pytest.mark.parametrize("name", DATA)
def test_matches_are_those_of_one_expression(name: str) -> None:
    data, position, expected = DATA[name], 0, []
    while (match := _TOGETHER.search(data, position)) is not None:
        expected.append(match.span())
        position = match.start() + 1
    found = [
        match.span()
        for p in pickle_streams._LIKELY
        for match in pickle_streams._matches(p, data, 0)
    ]
    assert sorted(found) == expected


@pytest.mark.parametrize("name", DATA)
def test_walks_that_are_not_begun_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def streams() -> tuple[object, int]:
        budgets = Budgets(Budget(_BUDGET), Budget(_BUDGET))
        found = pickle_streams.pickles_in(DATA[name], budgets, is_named_pickle=False)
        return found, budgets.searching.left

    quickly = streams()
    monkeypatch.setattr(pickle_streams, "_is_one_step", lambda data, start: False)
    assert quickly == streams()
