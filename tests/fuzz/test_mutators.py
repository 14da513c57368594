"""The mutators and their strategies: deterministic, fast enough to matter, and they reach deep."""

from __future__ import annotations

import ast
import io
import json
from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import ARCHIVES, ROOT, records_of
from tests.support.suite import examples
from tsarchive.formats.pt2.schema import ExportedProgram, read_json
from tsarchive.pickler import loads
from tsarchive.testing import mutated_archives, mutated_code, mutated_pickles, mutated_programs
from tsarchive.testing.mutated_archive import (
    HEADERS,
    mutate_archive,
    small_archive,
    small_code,
    small_pickle,
    take_apart,
)
from tsarchive.testing.mutated_records import (
    BOUNDARIES,
    boundary,
    mutate_bytes,
    mutate_code,
    mutate_json,
    mutate_pickle,
    split_opcodes,
)

SETTINGS = settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
SOUND = sorted(path for path in ARCHIVES.glob("*.pt") if not path.name.endswith(".io.pt"))
MUTATORS = {
    "bytes": lambda random: mutate_bytes(small_archive(), random),
    "archive": lambda random: mutate_archive(small_archive(), random, donors=[small_archive()]),
    "pickle": lambda random: mutate_pickle(small_pickle(), random, donors=[small_pickle()]),
    "code": lambda random: mutate_code(small_code(), random, donors=[small_code()]),
}


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_an_archive_taken_apart_is_written_as_it_was(path):
    assert take_apart(path.read_bytes()).written() == path.read_bytes()


@pytest.mark.parametrize("path", SOUND[::5], ids=lambda path: path.stem)
def test_a_pickle_split_is_joined_as_it_was(path):
    for name, data in records_of(path.read_bytes()).items():
        if name.endswith("pkl"):
            opcodes = split_opcodes(data)
            assert b"".join(opcodes) == data
            assert opcodes[-1] == b"."


@pytest.mark.parametrize("name", MUTATORS)
def test_one_seed_gives_one_input(name):
    make = MUTATORS[name]
    assert [make(Random(n)) for n in range(50)] == [make(Random(n)) for n in range(50)]
    assert len({make(Random(n)) for n in range(300)}) > 250


def test_the_seed_is_sound_and_runs():
    assert tsarchive.verify(io.BytesIO(small_archive())).ok
    module = tsarchive.load(io.BytesIO(small_archive()))
    # x * weight + constant, both 1 to 4; negated as there is one round, then scaled by a half.
    assert module(torch.ones(4), 1).tolist() == [-1.0, -2.0, -3.0, -4.0]


def test_mutated_archives_are_refused_for_many_reasons():
    """The mutants reach the checks behind the first one."""
    reasons = Counter()
    for number in range(3000):
        try:
            with tsarchive.open(io.BytesIO(MUTATORS["archive"](Random(number)))) as archive:
                for name in archive.records:
                    archive.read(name)
            reasons["sound"] += 1
        except tsarchive.ArchiveError as error:
            reasons[error.message[:16]] += 1
    assert len(reasons) > 30
    assert 150 < reasons["sound"] < 1500


def test_mutated_pickles_are_refused_for_many_reasons():
    reasons = Counter()
    for number in range(3000):
        try:
            loads(MUTATORS["pickle"](Random(number)))
            reasons["sound"] += 1
        except tsarchive.PickleError as error:
            reasons[error.message[:16]] += 1
    assert len(reasons) > 25
    assert 300 < reasons["sound"] < 2500


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_much_of_mutated_code_parses():
    parsed = 0
    for number in range(500):
        try:
            ast.parse(MUTATORS["code"](Random(number)))
            parsed += 1
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    assert 150 < parsed < 450


@given(st.integers(0, 2**64), st.sampled_from((8, 16, 32, 64)), st.integers(0, 2**32))
@SETTINGS
def test_boundaries_fit_their_width(near, bits, seed):
    assert 0 <= boundary(Random(seed), near, bits) < 1 << bits
    assert tuple(sorted(BOUNDARIES)) == BOUNDARIES


def test_header_tables_name_the_fields_of_the_layout():
    assert dict(HEADERS["end64"])["directory_offset"] == 64
    assert dict(HEADERS["central"])["header_offset"] == 32
    assert dict(HEADERS["local"])["method"] == 16
    assert [len(HEADERS[kind]) for kind in ("local", "central", "end")] == [10, 16, 7]


def outcome(action) -> str:
    """``sound``, or an error of the library that can be shown."""
    try:
        action()
    except tsarchive.ArchiveError as error:
        return str(error)
    return "sound"


@given(mutated_archives())
@SETTINGS
def test_drawn_archives_load_or_are_refused(data):
    assert outcome(lambda: tsarchive.load(io.BytesIO(data)))


@given(mutated_pickles())
@SETTINGS
def test_drawn_pickles_are_read_or_refused(data):
    assert outcome(lambda: loads(data))


@given(mutated_code())
@SETTINGS
def test_drawn_code_is_read_or_refused(text):
    data = replaced("code/__torch__.py", text.encode("utf-8", "replace"))
    assert outcome(lambda: tsarchive.open(io.BytesIO(data)).tree())
    assert outcome(lambda: tsarchive.open(io.BytesIO(data)).needs)


PROGRAM = (ROOT / "fixtures" / "pt2" / "linear.pt2").read_bytes()


def program() -> bytes:
    with tsarchive.open(io.BytesIO(PROGRAM)) as archive:
        return archive.read("models/model.json")


@given(mutated_programs([program(), b'{"config": {}}', b"no JSON"]))
@SETTINGS
def test_drawn_json_is_decoded_or_refused(data):
    assert decoding(data)


def test_much_of_mutated_json_is_json_and_little_is_as_it_was():
    made = [mutate_json(program(), Random(number)) for number in range(200)]
    assert sum(data == program() for data in made) < 20
    assert sum(map(is_json, made)) > 150
    assert sum(decoding(data) == "sound" for data in made) > 20


def decoding(data: bytes) -> str:
    return outcome(lambda: read_json(ExportedProgram, data, "models/model.json"))


def is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def replaced(record: str, content: bytes) -> bytes:
    draft = take_apart(small_archive()).copy()
    index = [member.record for member in draft.members].index(record)
    draft.members[index] = draft.members[index].with_content(content, content, 0)
    return draft.written()


@given(mutated_code(["x = 12345\n"]))
@settings(SETTINGS, max_examples=examples(30))
def test_strategies_take_seeds(text):
    assert "weight" not in text


def test_only_what_is_named_is_there():
    with pytest.raises(AttributeError):
        tsarchive.testing.no_such_strategy  # noqa: B018
