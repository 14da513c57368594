"""Telling pickles from texts: word lists raise no alarm, and nothing that would run is missed."""

from __future__ import annotations

import base64
import io
import pickle
import random
import sys
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import ROOT
from tests.support.auditing import audited, rules_of, zip_of
from tests.support.suite import examples
from tsarchive import Nature
from tsarchive.scanning.pickle_names import Budget, Budgets, is_importable, is_widespread
from tsarchive.scanning.pickle_streams import pickles_in
from tsarchive.scanning.pickle_walk import PickleBytes, walk

sys.path.insert(0, str(ROOT / "fuzz"))
try:
    from attacks import attack
    from texts import innocent
finally:
    sys.path.remove(str(ROOT / "fuzz"))


def of_pickles(data: bytes) -> set[str]:
    """The rules of pickles that tell of an attack."""
    findings = tsarchive.audit(io.BytesIO(data)).findings
    return {f.rule for f in findings if f.rule.startswith("pickle-") and f.nature is Nature.HOSTILE}


# Texts.

LISTS = {
    "children of a vocabulary": "children\nfebruary\nbook\nwhy\n11\ndoor\nneed\npresident\norder\n",
    "coins": "coin\nopin\nbrain\nWhile\nhest\nThursday\nwouldn\naughter\n",
    "a list in order": "Church\nChurchill\nChurchill's\nChurch's\nChurriguera\n",
    "names and a point": "children\nfebruary\n.com\n",
    "a line of a call": "call\nthis\nVictor\nRed\n",
    "a line of a change": "call\nthis\nVictor\nblue\nabout\nsad\n",
    "types and points": "value\n(int\nitem\n.bar\n(in\nhouse\n.\n",
    "types alone": "value\n(in\nhouse\nother\n",
    "a change of a name that is there": "cre\ngrad\nVictor\na\nb\n",
    "items that text may spell": "concurrences\nLost\n(Updates\n" + "x" * 104 + "\nu\n",
    "a change of a name that is nowhere": "conv\nFile\nC\x04abcdVa\nF1\ns\n",
    "a sentence in lines": "it\nis\nin\nhouses\n.\ncats\nand\ndogs\n.\n",
    "functions": "value\n(cos\nsine\nother\n",
    "signs": "N)R.\n",
    "many of one letter": "c\n" * 400 + "Ra\n" * 400,
    "names that end alike": "studios\nforecast\nacre\nRadios\nfire\nrest\nbase\nscope\n" * 50,
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_words_is_no_pickle(name):
    text = LISTS[name].encode()
    assert not of_pickles(text)
    assert not of_pickles(b"some\nwords\n" + text + b"more\n")
    records = {"data.pkl": b"\x80\x02}.", "version": b"3\n"}
    assert not of_pickles(zip_of({**records, "extra/vocab.txt": text}))
    assert not of_pickles(zip_of({"vocab.txt": text}, method=zipfile.ZIP_DEFLATED))
    assert not of_pickles(pickle.dumps({"vocabulary": text.decode(), "raw": text}))


def test_texts_of_all_kinds_are_no_pickles():
    for number in range(examples(3000)):
        text = innocent(random.Random(f"suite/{number}"))
        assert not of_pickles(text), (number, text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_vocabulary_in_any_encoding_is_no_pickle(encoding):
    pieces = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "##ing", "(int", ")R", "者"]
    words = LISTS["children of a vocabulary"].split()
    text = "\n".join([*pieces, *words, *map(chr, range(0x4E00, 0x9000, 7))])
    assert not of_pickles(text.encode(encoding, "replace"))


def steps_of_search(data: bytes) -> int:
    budgets = Budgets(Budget(1 << 40), Budget(1 << 40))
    pickles_in(data, budgets, is_named_pickle=False)
    return (1 << 40) - budgets.searching.left


def test_a_long_list_in_order_takes_time_in_proportion():
    """Every line names a global to a reader, and so does each letter c in one."""
    short, long = (
        "".join(f"cacti{n:06}\n" for n in range(count)).encode() for count in (500, 5000)
    )
    assert steps_of_search(long) < 11 * steps_of_search(short)
    assert steps_of_search(long) < 4 * len(long)
    assert not of_pickles(b"b\n" + long)


def test_a_list_of_many_megabytes_is_looked_at_to_its_end():
    text = "".join(f"w{n % 7919}ace\n" for n in range(200_000)).encode()
    assert not of_pickles(text)


# Pickles.

ARGUMENT = b"(S'id'\nt"
HEXADECIMAL = "a number that is hexadecimal"
# What a reader that begins at the first byte would run, whatever follows.
RUN_HERE = {
    "a call": b"cos\nsystem\n" + ARGUMENT + b"R",
    "a call of a strange module": b"cevil\nrun\n" + ARGUMENT + b"R",
    "a call without arguments": b"cevil\nrun\n)R",
    "INST": b"(S'id'\nios\nsystem\n",
    "INST without arguments": b"(ios\nabort\n",
    "OBJ": b"(cos\nsystem\nS'id'\no",
    "text for arguments, as Python's own unpickler takes it": b"cos\nsystem\nVx\nR",
    "BUILD": b"csys\nmodules\n}S'os'\nNsb",
    "SETITEM": b"csys\nmodules\nS'os'\nNs",
    "SETITEMS": b"csys\nmodules\n(S'os'\nNu",
    "APPEND": b"csys\npath\nS'/tmp'\na",
    HEXADECIMAL: b"I0x1\n0(S'id'\nios\nsystem\n",
    "a truth value": b"I01\n0(S'id'\nios\nsystem\n",
    "text that is not ASCII": b"(S'\xc3\xa9'\nios\nsystem\n",
    "two texts": b"\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R",
    "an extension": b"\x82\x01)R",
}


@pytest.mark.parametrize("form", RUN_HERE)
@pytest.mark.parametrize(
    "behind", [b".", b"", b"\xff\xff", b"\nchildren\nfebruary\n", b"zebra\n"], ids=repr
)
def test_what_runs_before_a_break_is_told(form, behind):
    data = RUN_HERE[form] + behind
    assert of_pickles(data)
    assert of_pickles(zip_of({"data.pkl": b"\x80\x02}.", "extra/vocab.txt": data}))
    assert of_pickles(pickle.dumps({"raw": data}))
    assert of_pickles(pickle.dumps({"raw": base64.b64encode(data + bytes(20)).decode()}))


@pytest.mark.parametrize("form", RUN_HERE)
def test_what_runs_where_an_array_begins_is_told(form):
    head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    for version, width in ((1, 2), (2, 4), (3, 4)):
        length = len(head).to_bytes(width, "little")
        array = b"\x93NUMPY" + bytes([version, 0]) + length + head
        assert "pickle-hidden" in of_pickles(array + RUN_HERE[form] + b"\xff\xff")
    assert not of_pickles(b"\x93NUMPY\x04\0\1\0" + head)
    assert not of_pickles(b"\x93NUMPY")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("form", RUN_HERE)
def test_what_runs_in_a_record_that_is_refused_is_told(form, method):
    data = bytearray(zip_of({"data.pkl": RUN_HERE[form] + b"\xff\xff"}, method=method))
    data[data.index(b"PK\x01\x02") + 46] ^= 1
    assert of_pickles(bytes(data))


# The same where no reader begins: chance has as many tries there as there are bytes.
ANYWHERE = {
    "a call": (b"cos\nsystem\n" + ARGUMENT + b"R", True),
    "a call of a strange module": (b"cevil\nrun\n" + ARGUMENT + b"R", True),
    "a short call": (b"cos\nabort\n)R", True),
    "a short call of a strange module": (b"cevil\nrun\n)R.", False),
    "BUILD": (b"csys\nmodules\n}S'os'\nNsb.", True),
    "BUILD that text may spell": (b"cre\n_\n(Gabcdefghtb", False),
    "a call after items, in text": (b"cevil\nrun\n(U\x01xe)R", False),
    "INST": (b"(S'id'\nios\nsystem\n", True),
    "INST that text may spell": (b"(Vector\nint\nfoo\nbar", False),
    "the same, whole": (b"(Vector\nint\nfoo\n.", True),
    "the same of a strange module": (b"(Vector\nin\nfoo\n.bar", False),
    "INST without arguments": (b"(int\nfoo\n.", False),
    "OBJ": (b"(cos\nsystem\nS'id'\no", True),
    "OBJ that text may spell": (b"(cos\nsine\nVector\nother", False),
    "a name": (b"cos\nsystem\n.", False),
    "a name with a protocol": (b"\x80\x02cos\nsystem\n.", False),
    "a call with a protocol": (b"\x80\x02cevil\nrun\n)R", True),
    "two texts": (b"\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R", True),
    "two long texts": (b"X\x02\0\0\0osX\x06\0\0\0system\x93X\x02\0\0\0id\x85R", True),
    "two texts that are kept": (b"\x8c\x02os\x94\x8c\x06system\x94\x93)R", True),
    "a name that cannot be": (b"(cross</w>\nhips\n(Sa'\nChina\n" + b"(ios\nsystem\n", False),
}


@pytest.mark.parametrize("form", ANYWHERE)
@pytest.mark.parametrize(
    "before", [b"\x89PNG\r\n\x1a\n" + bytes(9), b"words\nand\nwords\n", b"a line "], ids=repr
)
def test_hidden_pickles_are_told_from_chance(form, before):
    data, is_told = ANYWHERE[form]
    assert of_pickles(before + data + b"\xff" * 20) == ({"pickle-hidden"} if is_told else set())


LETTERS = (
    "\ncipa\nDecimal\nListcontainer\nCo"
    "unter\nconde\nITS\nOrerunwe\nnehel"
    "aob\nsurround\n\u0643\u0647\u0645\u0646\u0627\n\u0399\nmoalsa\nvi"
    "quru\nauthors\nlepiac\nGETATTR\nen"
    "to\nGEOUAL\n\u5127\u50c2\u5181"
)


def test_letters_beyond_ascii_are_no_opcodes():
    """Where all is UTF-8, which NEWOBJ behind its arguments is not."""
    words = LETTERS.encode()
    assert not of_pickles(words)
    assert not of_pickles(words[:-1])
    assert of_pickles(words + b"\xff")
    assert of_pickles(b"a line cevil\nrun\n(S'id'\nS'a word'\nt\x81" + b"\xff" * 20)


def test_a_pickle_at_the_end_needs_to_say_less():
    assert not of_pickles(b"words\n(int\nfoo\n.bar\n")
    assert of_pickles(b"words\n(int\nfoo\n.\n")


NAMES = {
    b"cos\nsystem\np0\n.children\n": True,
    b"cre\nhints\n.children\n": False,
    b"Pointer\ncre\nhints\n.\n": False,
    b"cos\nsystem\n.": True,
    b"cevil\nrun\np0\n.": True,
    b"cevil\nrun\n.": False,
    b"cevil\nrun\n.children\n": False,
    b"cevil\nrun\nchildren\n": False,
    b"cnot-a-module\nrun\n.": False,
}


@pytest.mark.parametrize("data", NAMES, ids=repr)
def test_a_name_alone_is_a_pickle_where_enough_speaks_for_it(data):
    assert of_pickles(data) == ({"pickle-name"} if NAMES[data] else set())


def test_generated_attacks_are_found():
    for number in range(examples(3000)):
        made = attack(random.Random(f"suite/{number}"))
        assert of_pickles(made.data), (number, made.how, made.pickled)


# What pickle.load would call, by pickle itself with stand-ins for what it would import.


class Watching:
    """Notes the names of what is called; imports nothing."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin-1")
        self.called = []

    def find_class(self, module, name):
        called = self.called

        class StandIn:
            def __new__(cls, *_, **__):
                called.append(f"{module}.{name}")
                return super().__new__(cls)

            def __init__(self, *_, **__):
                """Takes whatever arguments there are."""

            def __call__(self, *_, **__):
                called.append(f"{module}.{name}")

        return StandIn

    def persistent_load(self, _):
        return None


class Watched(Watching, pickle.Unpickler):
    pass


class WatchedInPython(Watching, pickle._Unpickler):
    pass


def called_by_pickle(data: bytes, kind: type[Watching] = Watched) -> list[str]:
    reader = kind(data)
    try:
        reader.load()
    except Exception:  # whatever a broken pickle raises
        return reader.called
    return reader.called


PARTS = [
    b"cos\nsystem\n", b"cevil\nrun\n", b"ios\nsystem\n", b"\x8c\x02os\x8c\x06system\x93",
    b"(", b"(", b")", b"t", b"R", b"R", b"o", b"\x81", b"\x92", b"b", b"0", b"1", b"2", b"q\0",
    b"h\0", b"p1\n", b"g1\n",
    b"\x94", b"N", b"I0x1\n", b"I01\n", b"L5L\n", b"F1.5\n", b"S'x'\n", b"S'\xe9'\n",
    b"Vx\n", b"X\1\0\0\0x", b"]", b"}", b"a", b"s", b"u", b"l", b"d", b"e", b"\x85", b"\x86", b"Q",
    b"P1\n", b".", b"\xff", b"iosx\nsystem", b"(S'x'\ntR", b")R",
]  # fmt: skip


@given(st.booleans(), st.lists(st.sampled_from(PARTS), max_size=14))
def test_whatever_pickle_would_call_is_told(says_so, parts):
    data = b"\x80\x04" * says_so + b"".join(parts)
    called = called_by_pickle(data)
    if any(says_so or is_widespread(name) for name in called):
        assert of_pickles(data)


def reads_hexadecimal() -> bool:
    """Whether the unpickler of this Python takes hexadecimal numbers, which 3.14 no longer does."""
    try:
        return bool(pickle.loads(b"I0x1\n."))
    except ValueError:
        return False


@pytest.mark.parametrize("form", [form for form in RUN_HERE if form not in (
    *(() if reads_hexadecimal() else (HEXADECIMAL,)),
    "an extension", "BUILD", "SETITEM", "SETITEMS", "APPEND",
    "text for arguments, as Python's own unpickler takes it",
)])  # fmt: skip
def test_the_forms_are_what_pickle_would_call(form):
    assert called_by_pickle(RUN_HERE[form] + b"\xff")


def test_generated_attacks_are_what_pickle_would_call():
    quiet = ("BUILD", "items", "call of a result", "by another")
    for number in range(examples(500)):
        made = attack(random.Random(f"oracle/{number}"))
        is_read = reads_hexadecimal() or b"I0x" not in made.pickled
        if is_read and not made.how.startswith(quiet):
            assert called_by_pickle(made.pickled), made


def test_a_name_that_ends_with_the_data_loses_its_last_byte():
    """So it does in Python's own unpickler, which then calls what is left."""
    assert called_by_pickle(b"(S'id'\nios\nsystemx", WatchedInPython) == ["os.system"]
    names = walk(PickleBytes(b"(S'id'\nios\nsystemx"), 0, Budget(1000)).events
    assert {event.name for event in names} == {"os.system"}


# Names.


@pytest.mark.parametrize("name", ["os.system", "a.b.c", "évil.run", "_a.__b__"])
def test_names_that_can_be_imported(name):
    assert is_importable(name)


@pytest.mark.parametrize("name", ["os.", "a..b", "not-a-module.run", "1a.b", "?.run", "a b.c", ""])
def test_names_that_cannot_be_imported(name):
    assert not is_importable(name)


@pytest.mark.parametrize(
    "name",
    ["os.system", "nt.system", "posix.system", "__builtin__.eval", "copy_reg.x", "torch.load"],
)
def test_names_of_python_and_of_known_libraries_are_widespread(name):
    assert is_widespread(name)


@pytest.mark.parametrize("name", ["evil.run", "hildren.february", "osx.system", "so.os"])
def test_other_names_are_not_widespread(name):
    assert not is_widespread(name)


def test_a_list_of_words_is_of_no_known_kind():
    """It is no attack, and no model, either."""
    assert rules_of(audited(LISTS["children of a vocabulary"].encode())) == {"file-kind"}
