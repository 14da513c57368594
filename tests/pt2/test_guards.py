"""Checks of arguments: sizes, symbols, ranges and conditions, held against those of torch."""

from __future__ import annotations

import io
import json
import logging
import warnings
import zipfile

import pytest
import torch
from torch.export import Dim

import tsarchive
from tests.support.archives import loaded
from tests.support.features import checks_guards
from tests.support.pt2_archives import saved_today
from tests.support.symbols import evaluate
from tsarchive.container import NewRecord, write_container
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.formats.pt2.guards import SizeFacts
from tsarchive.formats.pt2.symbols import MAX_DEPTH, MAX_TEXT, read_guard

RECORD = "models/model.json"
FAILURES = (RuntimeError, AssertionError, LookupError)


def module_of(function):
    return type("Called", (torch.nn.Module,), {"forward": function})()


def archive_of(function, args, **options):
    program = torch.export.export(module_of(function), args, **options)
    return saved_today(program)


def of_torch(data, *, by_hook=False):
    """torch has two ways to check: code that it generates, and, without sample inputs, a hook."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(io.BytesIO(data)).module(check_guards=not by_hook)
    finally:
        logging.disable(logging.NOTSET)


def changed(data, change):
    """The archive with its program changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    program = json.loads(records[RECORD])
    change(program)
    records[RECORD] = json.dumps(program).encode()
    records.pop(".data/serialization_id")
    file = io.BytesIO()
    write_container(file, [NewRecord(name, content) for name, content in records.items()])
    return file.getvalue()


def size(*sizes):
    return torch.ones(*sizes)


def one(self, x):
    return x + 1


def two(self, x, y):
    return x.sum() + y.sum()


def added(self, x, y):
    return x + y


def joined(self, x, y):
    return torch.cat([x, y])


def repeated(self, x, n):
    return x.repeat(n)


def split_in_two(self, x):
    return x.view(2, -1)


BATCH = Dim("batch", min=3, max=10)
ANY = Dim("length")
# name -> (function, args, dynamic shapes, calls that both take or both refuse)
PROGRAMS = {
    "fixed": (one, (size(2, 3),), None, [(size(2, 3),), (size(3, 3),), (size(2, 4),)]),
    "range": (
        one, (size(4, 3),), ({0: BATCH},),
        [(size(n, 3),) for n in (1, 2, 3, 10, 11)] + [(size(4, 4),)],
    ),
    "no greatest": (one, (size(4),), ({0: ANY},), [(size(n),) for n in (1, 2, 1000)]),
    "equal": (
        added, (size(4), size(4)), ({0: ANY}, {0: ANY}),
        [(size(5), size(5)), (size(5), size(4)), (size(1), size(1))],
    ),
    "equal across": (
        two, (size(4, 2), size(3, 4)), ({0: ANY}, {1: ANY}),
        [(size(5, 2), size(3, 5)), (size(5, 2), size(3, 4))],
    ),
    "derived": (
        two, (size(4), size(5)), ({0: ANY}, {0: ANY + 1}),
        [(size(7), size(8)), (size(7), size(7)), (size(8), size(7))],
    ),
    "multiple": (
        one, (size(6),), ({0: 3 * Dim("third")},), [(size(9),), (size(12),)],
    ),
    "only derived": (
        two, (size(6), size(9)), ({0: 2 * ANY}, {0: 3 * ANY}),
        [(size(8), size(12)), (size(8), size(15)), (size(10), size(12))],
    ),
    "number": (repeated, (size(2), 3), None, [(size(2), 3), (size(2), 4)]),
    "free number": (
        repeated, (size(2), 3), (None, Dim.DYNAMIC), [(size(2), 3), (size(2), 5), (size(3), 3)],
    ),
    "found": (
        split_in_two, (size(8),), ({0: Dim.AUTO},), [(size(10),), (size(2),), (size(9),)],
    ),
    "found to be equal": (
        added, (size(4), size(4)), ({0: Dim.AUTO}, {0: Dim.AUTO}),
        [(size(6), size(6)), (size(6), size(4))],
    ),
    "unrelated": (
        joined, (size(4), size(5)), ({0: Dim.AUTO}, {0: Dim.AUTO}),
        [(size(6), size(2)), (size(3), size(9))],
    ),
}  # fmt: skip


def outcome(call, args):
    """The result, or that there is none."""
    try:
        return call(*args)
    except FAILURES:
        return None


# The hook does not look at the conditions that stand in the program as text.
WITH_TEXT = ("found", "found to be equal")
WAYS = [(name, False) for name in PROGRAMS] + [
    (name, True) for name in PROGRAMS if name not in WITH_TEXT
]


@checks_guards
@pytest.mark.parametrize(("name", "by_hook"), WAYS)
def test_calls_are_taken_and_refused_as_by_torch(name, by_hook):
    function, args, shapes, calls = PROGRAMS[name]
    data = archive_of(function, args, dynamic_shapes=shapes)
    module, expected = loaded(data), of_torch(data, by_hook=by_hook)
    taken = set()
    for given in [args, *calls]:
        found, wanted = outcome(module, given), outcome(expected, given)
        assert (found is None) == (wanted is None), given
        assert wanted is None or torch.equal(found, wanted)
        taken.add(wanted is not None)
    assert True in taken


@checks_guards
@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("fixed", (size(2, 4),), r"x must have the size \[2, 3\], but has \[2, 4\]"),
        ("range", (size(2, 3),), r"x\.size\(\)\[0\] must be 3 at least, but is 2"),
        ("range", (size(11, 3),), r"x\.size\(\)\[0\] must be 10 at most, but is 11"),
        ("range", (size(4, 4),), r"x\.size\(\)\[1\] must be 3, but is 4"),
        ("range", (size(4),), r"x must have 2 dimensions, but has 1"),
        (
            "equal",
            (size(5), size(4)),
            r"y\.size\(\)\[0\] must be 5 \((s\d+), where \1 is x\.size\(\)\[0\]\), but is 4",
        ),
        ("derived", (size(7), size(7)), r"y\.size\(\)\[0\] must be 8 \(s\d+ \+ 1, where"),
        ("only derived", (size(7), size(9)), r"x.size\(\)\[0\] must be 2\*s\d+ for some integer"),
        ("number", (size(2), 4), r"n must be 3, but is 4"),
        ("found", (size(9),), r"the arguments must be such that x\.size\(\)\[0\] % 2 == 0"),
    ],
)
def test_errors_say_what_was_expected(name, args, message):
    function, original, shapes, _ = PROGRAMS[name]
    module = loaded(archive_of(function, original, dynamic_shapes=shapes))
    with pytest.raises(RuntimeError, match=message):
        module(*args)


def test_symbols_of_older_programs_are_infix():
    data = archive_of(two, (size(4), size(5)), dynamic_shapes=({0: ANY}, {0: ANY + 1}))

    def to_infix(program):
        graph = program["graph_module"]["graph"]
        for meta in graph["tensor_values"].values():
            for entry in meta["sizes"]:
                if "as_expr" in entry:
                    text = str(tsarchive.formats.pt2.symbols.parse(entry["as_expr"]["expr_str"]))
                    entry["as_expr"]["expr_str"] = text

    module = loaded(changed(data, to_infix))
    assert module(size(7), size(8)).item() == 15
    with pytest.raises(RuntimeError, match="must be 8"):
        module(size(7), size(7))


# Conditions as text


def guarded(*texts):
    data = archive_of(two, (size(4, 2), size(5)), dynamic_shapes=({0: ANY}, {0: Dim("other")}))
    return changed(data, lambda program: program.update(guards_code=list(texts)))


@checks_guards
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("L['x'].size()[0] == 4", True),
        ("L['x'].size()[0] != 4", False),
        ("L['x'].size()[0] + 1 == L['y'].size()[0]", True),
        ("(L['x'].size()[0] * 2) % 3 == 2", True),
        ("2 <= L['x'].size()[0] <= 3", False),
        ("L['x'].size()[0] > 1 and L['y'].size()[0] > 5", False),
        ("L['x'].size()[0] > 1 or L['y'].size()[0] > 5", True),
        ("not (L['x'].size()[0] == 4)", False),
        ("L['x'].stride()[0] == 2", True),
        ("L['x'].storage_offset() == 0", True),
        ("L['flat_args'][1].size()[0] == 5", True),
        ("max(L['x'].size()[0], 9) == 9", True),
        ("min(L['x'].size()[0], 9, 3) == 3", True),
        ("abs(2 - L['x'].size()[0]) == 2", True),
        ("(-L['x'].size()[0]) // 3 == -2", True),
        ("L['x'].size()[0] ** 2 == 16", True),
        ("math.floor(L['y'].size()[0] / 2) == 2", True),
        ("math.ceil(L['y'].size()[0] / 2) == 3", True),
        ("math.trunc(L['y'].size()[0] / 2) == 2", True),
        ("round(L['y'].size()[0] / 2) == 2", True),
        ("math.sqrt(L['x'].size()[0]) == 2.0", True),
        ("torch.sym_float(L['x'].size()[0]) < math.inf", True),
        ("(1 if L['x'].size()[0] == 4 else 2) == 1", True),
        ("(1 if L['x'].size()[0] == 5 else 2) == 1", False),
        ("L['x'].size()[0]\n == 4", True),
    ],
)
def test_conditions_hold_as_in_python(text, holds):
    data = guarded(text)
    given = size(4, 2), size(5)
    module, expected = loaded(data), of_torch(data)
    assert (outcome(expected, given) is not None) is holds
    assert (outcome(module, given) is not None) is holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "L['x'].__class__",
        "L['x'].size",
        "L['x'].data_ptr() == 0",
        "[x for x in L]",
        "L['x'].size()[:1]",
        "(lambda: True)()",
        "L['x'] is None",
        "exec('1')",
        "torch.load('x')",
        "f'{L}'",
        "open('x')",
        "L['x'].size()[0] in (1, 2)",
        "max(*L['x'].size())",
        "max(L['x'].size()[0], key=print)",
        "(y := 1) == 1",
        "'a' == 'a'",
    ],
)
def test_other_forms_are_refused_when_the_program_is_called(text):
    module = loaded(guarded(text))
    with pytest.raises((UnsupportedError, FormatError), match=r"models/model\.json"):
        module(size(4, 2), size(5))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "L['x'",
        "x = 1",
        "import os",
        "1;2",
        "\0",
        "(" * 5000 + ")" * 5000,
        "not " * 5000 + "True",
        "1" + "+1" * 50_000,
        "L['x']" + "[0]" * 5000,
        "-" * (MAX_DEPTH + 5) + "1 == 1",
        " " * (MAX_TEXT + 1),
        "9" * 10_000 + " == 1",
    ],
    ids=range(13),
)
def test_texts_made_to_harm_are_refused(text):
    with pytest.raises((FormatError, UnsupportedError)):
        read_guard(text)


def test_conditions_on_what_is_no_argument():
    for text in ("L['z'].size()[0] == 4", "L['x'][0].size()[0] == 4", "L['x'].size()[7] == 4"):
        module = loaded(guarded(text))
        with pytest.raises((ArchiveError, LookupError)):
            module(size(4, 2), size(5))


def test_conditions_are_read_as_expressions():
    guard = read_guard("L['x'].size()[0] == ((-1) + L['d']['k'].size()[1])")
    assert guard.text == "x.size()[0] == -1 + d['k'].size()[1]"
    assert set(guard.sources) == {"x.size()[0]", "d['k'].size()[1]"}
    assert evaluate(guard.condition, {"x.size()[0]": 2, "d['k'].size()[1]": 3}) is True


def with_sizes(text):
    """A program of which this text is the size of every tensor."""
    data = archive_of(one, (size(4),), dynamic_shapes=({0: ANY},))

    def change(program):
        for meta in program["graph_module"]["graph"]["tensor_values"].values():
            for entry in meta["sizes"]:
                entry["as_expr"]["expr_str"] = text

    return loaded(changed(data, change))


@pytest.mark.parametrize(
    "text", ["exec('1')", "__import__('os')", "s77.real", "9**9**9", "s77" * 40_000, "Mod(1)"]
)
def test_hostile_sizes_are_refused(text):
    module = with_sizes(text)
    with pytest.raises(ArchiveError):
        module(size(4))


def test_refused_sizes_name_the_record():
    module = with_sizes("evil(1)")
    with pytest.raises(FormatError, match=r"names 'evil'.*record models/model\.json"):
        module(size(4))


def test_a_malformed_calling_convention_is_refused_with_its_record():
    def change(program):
        program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = "[1, null]"

    data = changed(archive_of(one, (size(4),)), change)
    with pytest.raises(FormatError, match=r"malformed.*record models/model\.json"):
        loaded(data)


# Conditions that checks of sizes have established


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("L['x'].size()[0] > 5", True),
        ("L['x'].size()[0] >= 6", True),
        ("L['x'].size()[0] != 5", True),
        ("L['x'].size()[0] <= 9", True),
        ("L['x'].size()[0] > 6", False),
        ("L['x'].size()[0] < 9", False),
        ("L['x'].size()[0] != 7", False),
        ("L['x'].size()[1] == 3", True),
        ("L['x'].size()[1] == 4", False),
        ("L['x'].size()[1] > 2", True),
        ("L['y'].size()[0] == L['x'].size()[0]", True),
        ("L['x'].size()[0] == L['y'].size()[0]", True),
        ("L['y'].size()[1] == L['x'].size()[0]", False),
        ("L['y'].size()[1] > 0", False),
        ("(L['x'].size()[0] % 2) == 0", False),
    ],
)
def test_what_checks_have_established_is_not_checked_again(text, is_known):
    known = SizeFacts()
    known.add_bounds("x.size()[0]", 6, None)
    known.add_bounds("x.size()[0]", None, 9)
    known.add_equal("x.size()[1]", 3)
    known.add_equal("y.size()[0]", "x.size()[0]")
    guard = read_guard(text)
    names = {name: str(source) for name, source in guard.sources.items()}
    assert known.implies(guard.condition, names) == is_known
