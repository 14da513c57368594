"""What is wrong with a file, and whether an accident or intent explains it."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import pytest
import torch

from tests.support.legacy_archives import FORWARD, archive, model_of
from tests.support.verifying import SEQUENTIAL, changed, records, verified, zipped
from tsarchive.container import Container
from tsarchive.errors import PickleError
from tsarchive.findings import Nature
from tsarchive.formats.torchscript.importer import Importer
from tsarchive.formats.torchscript.verifying import checking
from tsarchive.formats.torchscript.verifying.checking import TorchScriptCheck
from tsarchive.pickler import Global, Reduce, dumps

WHOLE = SEQUENTIAL.read_bytes()
RECORDS = records()
CODE = "code/__torch__/fixtures/modules/containers.py"
TEXT = RECORDS[CODE]
DATA = RECORDS["data.pkl"]
STORAGE = RECORDS["data/0"]
_RETURN = b"    return "
assert _RETURN in TEXT


def with_statement(statement: bytes) -> bytes:
    """The code with one more statement before the first return."""
    return TEXT.replace(_RETURN, b"    " + statement + b"\n" + _RETURN, 1)


def line_of(statement: bytes) -> int:
    return with_statement(statement).partition(statement)[0].count(b"\n") + 1


def in_data(old: bytes, new: bytes) -> bytes:
    assert DATA.count(old) >= 1
    return changed(**{"data.pkl": DATA.replace(old, new, 1)})


def naming(module: str, name: str) -> bytes:
    """An archive whose constants are the result of calling this on a string."""
    called = f"\x80\x02(c{module}\n{name}\nX\x02\0\0\0ls\x85Rt.".encode("latin-1")
    return changed(**{"constants.pkl": called})


# The count of elements of storage 0, as its persistent id has it, and what is put in its place.
_COUNT = b"K\x0c"


# A tensor of a subclass that is called os.system.
SUBCLASS = (
    b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
    b"cos\nsystem\n((X\x07\0\0\0storageq\0ctorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
    b"K\x00tQK\x00(K\x00t(K\x01t\x89NtNtR."
)


def torch_saved_file() -> bytes:
    written = io.BytesIO()
    torch.save({"a": torch.ones(3)}, written)
    return written.getvalue()


def duplicated() -> bytes:
    """An archive with two records of one name."""
    written = io.BytesIO(zipped(RECORDS))
    with zipfile.ZipFile(written, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("m/data.pkl", DATA)
    return written.getvalue()


def behind(prefix: bytes) -> bytes:
    """An archive that begins as another file."""
    written = io.BytesIO(prefix)
    with zipfile.ZipFile(written, "a") as file:
        for name, data in RECORDS.items():
            file.writestr(f"m/{name}", data)
    return written.getvalue()


def overlapping() -> bytes:
    """The directory says of two records that they begin at one byte."""
    data = bytearray(zipped(RECORDS))
    entries = [
        position for position in range(len(data)) if data[position:].startswith(b"PK\x01\x02")
    ]
    data[entries[1] + 42 : entries[1] + 46] = data[entries[0] + 42 : entries[0] + 46]
    return bytes(data)


def with_second_end() -> bytes:
    """Two end records, each of which fits the end of the file."""
    data = zipped(RECORDS)
    end = data[data.rindex(b"PK\x05\x06") :]
    return data[:-2] + struct.pack("<H", len(end)) + end


def flipped(within: bytes) -> bytes:
    data = bytearray(WHOLE)
    data[WHOLE.index(within) + len(within) // 2] ^= 0x20
    return bytes(data)


LEGACY_TENSOR = model_of()["tensors"][0]
# Name: the file, the verdict, and the rule and the record of a finding.
DAMAGE = {
    # No archive, or another.
    "empty": (b"", "broken", "file-empty", None),
    "zeros": (bytes(4096), "broken", "file-zeros", None),
    "cut": (WHOLE[: len(WHOLE) // 2], "broken", "file-cut-short", None),
    "web page": (b"<!DOCTYPE html><html></html>", "another kind", "file-web-page", None),
    "git lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "another kind", "file-git-lfs-pointer", None,
    ),
    "text": (b"hello", "another kind", "file-not-zip", None),
    "torch.save": (torch_saved_file(), "another kind", "file-kind", None),
    "some zip": (zipped({"a.txt": b"a"}), "another kind", "file-kind", None),
    # Container.
    "flipped tensor": (flipped(STORAGE), "broken", "zip-crc", "data/0"),
    "flipped pickle": (flipped(DATA), "broken", "zip-crc", "data.pkl"),
    "appended": (WHOLE + b"xx", "broken", "zip-appended", None),
    "prefixed": (b"#!/bin/sh\n" + zipped(RECORDS), "broken", "file-shifted", None),
    "behind a script": (behind(b"#!/bin/sh\n"), "hostile", "zip-prefix", None),
    "duplicate": (duplicated(), "hostile", "zip-duplicate-name", "m/data.pkl"),
    "overlap": (overlapping(), "inconsistent", "zip-shared-header", None),
    "second end": (with_second_end(), "inconsistent", "zip-several-ends", None),
    "name": (zipped({**RECORDS, "../../evil": b""}), "hostile", "zip-bad-name", None),
    # Records.
    "no data.pkl": (changed(without=["data.pkl"]), "broken", "record-missing", "data.pkl"),
    "no constants": (
        changed(without=["constants.pkl"]), "broken", "record-missing", "constants.pkl",
    ),
    "no version": (
        zipped({k: v for k, v in RECORDS.items() if k != "version"}),
        "broken", "record-version", "version",
    ),
    "version": (zipped({**RECORDS, "version": b"11\n"}), "broken", "record-version", "version"),
    "version 0": (zipped({**RECORDS, "version": b"0\n"}), "broken", "record-version", "version"),
    "version text": (
        zipped({**RECORDS, "version": b"three"}), "broken", "record-version", "version",
    ),
    "two versions": (
        zipped({**RECORDS, ".data/version": b"3\n"}), "unusual", "record-version", "version",
    ),
    "byte order": (
        zipped({**RECORDS, "byteorder": b"middle"}), "broken", "record-byteorder", "byteorder",
    ),
    "big endian": (
        zipped({**RECORDS, "byteorder": b"big"}), "unusual", "record-byteorder", "byteorder",
    ),
    "unknown": (changed(**{"run.exe": b"MZ"}), "unusual", "record-unknown", "run.exe"),
    "unreferenced": (
        changed(**{"data/99": b"payload"}), "unusual", "record-unreferenced", "data/99",
    ),
    # Pickles.
    "no pickle": (changed(**{"data.pkl": b"no"}), "broken", "pickle-malformed", "data.pkl"),
    "pickle cut": (changed(**{"data.pkl": DATA[:-9]}), "broken", "pickle-malformed", "data.pkl"),
    "root": (changed(**{"data.pkl": b"\x80\x02K\x01."}), "broken", "pickle-root", "data.pkl"),
    "missing class": (
        changed(without=[CODE, f"{CODE}.debug_pkl"]), "broken", "pickle-class", "data.pkl",
    ),
    "missing slot": (
        in_data(b"X\x08\0\0\0training", b"X\x08\0\0\0draining"), "broken", "pickle-slot",
        "data.pkl",
    ),
    "os.system": (naming("os", "system"), "hostile", "pickle-global", "constants.pkl"),
    "eval": (naming("builtins", "eval"), "hostile", "pickle-global", "constants.pkl"),
    "torch.load": (naming("torch", "load"), "hostile", "pickle-global", "constants.pkl"),
    "called class": (
        naming("__torch__.fixtures.modules.containers", "InSequence"), "hostile", "pickle-target",
        "constants.pkl",
    ),
    "called storage": (
        naming("torch", "FloatStorage"), "hostile", "pickle-target", "constants.pkl",
    ),
    "object of a function": (
        changed(**{"constants.pkl": b"\x80\x02(ctorch\ndevice\n)\x81}bt."}), "hostile",
        "pickle-target", "constants.pkl",
    ),
    "hidden behind a subclass": (
        changed(**{"constants.pkl": SUBCLASS.replace(b"R.", b"Rcos\nsystem\n)R\x86.")}), "hostile",
        "pickle-global", "constants.pkl",
    ),
    "arguments": (
        naming("torch.jit._pickle", "build_intlist"), "broken", "pickle-argument", "constants.pkl",
    ),
    "no such member": (
        naming("__torch__.none", "Enum"), "broken", "pickle-class", "constants.pkl",
    ),
    "type": (
        changed(**{"constants.pkl": b"\x80\x02(ctorch.jit._pickle\nrestore_type_tag\n"
                                    b"]X\x04\0\0\0Lis[\x86Rt."}),
        "broken", "pickle-type", "constants.pkl",
    ),
    "debug record": (
        changed(**{f"{CODE}.debug_pkl": b"\x80\x02K\x01."}), "broken", "pickle-debug",
        f"{CODE}.debug_pkl",
    ),
    "debug of longer code": (
        changed(**{CODE: TEXT[:60] + b"\n    return x\n"}), "broken", "pickle-debug",
        f"{CODE}.debug_pkl",
    ),
    "deep": (
        changed(**{"constants.pkl": b"\x80\x02" + b"(" * 201 + b"t" * 201 + b"."}), "hostile",
        "pickle-depth", "constants.pkl",
    ),
    # Tensors.
    "size lie": (
        changed(**{"data/0": STORAGE[:-4]}), "hostile", "tensor-storage-size", "data.pkl",
    ),
    "no storage": (changed(without=["data/0"]), "broken", "tensor-storage-missing", "data.pkl"),
    "elements lie": (
        in_data(_COUNT + b"tQ", b"K\x78tQ"), "hostile", "tensor-storage-size", "data.pkl",
    ),
    # Code.
    "import": (changed(**{CODE: b"import os\n" + TEXT}), "hostile", "code-import", CODE),
    "from import": (
        changed(**{CODE: b"from os import system\n" + TEXT}), "hostile", "code-construct", CODE,
    ),
    "lambda": (
        changed(**{CODE: with_statement(b"f = lambda: 1")}), "hostile", "code-construct", CODE,
    ),
    "comprehension": (
        changed(**{CODE: with_statement(b"f = [i for i in (1, 2)]")}), "hostile",
        "code-construct", CODE,
    ),
    "open": (
        changed(**{CODE: with_statement(b'f = open("a")')}), "hostile", "code-name", CODE,
    ),
    "__import__": (
        changed(**{CODE: with_statement(b'f = __import__("os")')}), "hostile", "code-name", CODE,
    ),
    "class of an object": (
        changed(**{CODE: with_statement(b"f = self.__class__")}), "hostile", "code-construct", CODE,
    ),
    "class by its name": (
        changed(**{CODE: with_statement(b'f = getattr(self, "__class__")')}), "hostile",
        "code-name", CODE,
    ),
    "globals": (
        changed(**{CODE: with_statement(b"f = __torch__.a.f.__globals__")}), "hostile",
        "code-construct", CODE,
    ),
    "undefined name": (
        changed(**{CODE: with_statement(b"f = nothing")}), "broken", "code-name", CODE,
    ),
    "undefined function": (
        changed(**{CODE: with_statement(b"f = __torch__.a.f(1)")}), "broken", "code-name", CODE,
    ),
    "constant": (
        changed(**{CODE: with_statement(b"f = CONSTANTS.c7")}), "broken", "code-name", CODE,
    ),
    "no code": (changed(**{CODE: b"%PDF-1.4 ("}), None, "code-", CODE),
    "cut code": (changed(**{CODE: TEXT[:-12] + b"("}), "broken", "code-syntax", CODE),
    "missing type": (
        changed(**{CODE: TEXT.replace(b"training : bool", b"training : __torch__.a.B", 1)}),
        "broken", "code-definition", None,
    ),
    # Archives of before torch 1.3.
    "model is no JSON": (archive(b"{").read(), "broken", "record-model", "model.json"),
    "model": (
        archive(model_of(tensors=[LEGACY_TENSOR | {"dims": ["x"]}])).read(), "broken",
        "record-model", "model.json",
    ),
    "old tensor": (
        archive(model_of(tensors=[LEGACY_TENSOR | {"dims": ["9"]}])).read(), "hostile",
        "tensor-bounds", "model.json",
    ),
    "old code": (
        archive(model_of(), **{"code/m.py": f"{FORWARD}  return (\n"}).read(), "broken",
        "code-syntax", "code/m.py",
    ),
    "old code imports": (
        archive(model_of(), **{"code/m.py": f"import os\n{FORWARD}  return x\n"}).read(),
        "hostile", "code-import", "code/m.py",
    ),
    "old attributes": (
        archive(model_of(), **{"attributes.pkl": b"\x80\x02(cos\nsystem\nt."}).read(), "hostile",
        "pickle-global", "attributes.pkl",
    ),
    "old spare tensor": (
        archive(model_of(), **{"tensors/7": b"1234"}).read(), "unusual", "record-unreferenced",
        "tensors/7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name):
    data, verdict, rule, record = DAMAGE[name]
    report = verified(data)
    found = [finding for finding in report.findings if finding.rule.startswith(rule)]
    assert found, report.findings
    assert not report.ok
    assert verdict in (None, report.verdict), report.findings
    assert record in (None, found[0].record)
    assert report.findings[0].severity == max(f.severity for f in report.findings)


# Where a finding stands in its record.
PLACES = {
    "os.system": 3,
    "called storage": 3,
    "no storage": DATA.index(b"Q"),
    "size lie": DATA.index(b"Q"),
}


@pytest.mark.parametrize("name", PLACES)
def test_offsets_are_those_of_the_opcode(name):
    data, _, rule, _ = DAMAGE[name]
    assert next(f.offset for f in verified(data).findings if f.rule == rule) == PLACES[name]


@pytest.mark.parametrize(
    "name",
    ["appended", "prefixed", "behind a script", "duplicate", "overlap", "second end", "name",
     "flipped tensor", "no pickle", "pickle cut", "os.system", "size lie", "no storage"],
)  # fmt: skip
def test_findings_of_bytes_have_an_offset(name):
    data, _, rule, _ = DAMAGE[name]
    assert all(f.offset is not None for f in verified(data).findings if f.rule == rule)


@pytest.mark.parametrize("statement", [b"f = lambda: 1", b'f = open("a")', b"f = CONSTANTS.c7"])
def test_findings_of_code_have_a_line(statement):
    (finding,) = verified(changed(**{CODE: with_statement(statement)})).findings
    assert finding.line == line_of(statement)


def test_every_cut_is_broken():
    for length in range(0, len(WHOLE), 97):
        report = verified(WHOLE[:length])
        assert report.verdict == "broken", length
        assert not report.ok


def test_every_flipped_byte_of_a_record_is_found():
    whole = zipped(RECORDS)
    for name, content in RECORDS.items():
        place = whole.index(content, whole.index(f"m/{name}".encode()))
        for position in range(place, place + len(content), max(1, len(content) // 3)):
            data = bytearray(whole)
            data[position] ^= 0x01
            report = verified(bytes(data))
            found = {(f.rule, f.record) for f in report.findings}
            assert ("zip-crc", name) in found
            assert not report.ok


@pytest.mark.parametrize(
    ("pickle", "names"),
    [
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", "os.system"),
        (b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94)R.", "os.system"),
        (b"\x80\x04\x95\x20\0\0\0\0\0\0\0\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (b"\x80\x02X\x02\0\0\0osq\x00X\x06\0\0\0systemq\x010h\x00h\x01\x93.", "os.system"),
        (b"S'os'\nS'system'\n\x93.", "os.system"),
        (b"Vos\np0\n0Vsystem\np1\n0g0\ng1\n\x93.", "os.system"),
        (b"cos\nsystem\n(S'ls'\ntR.", "os.system"),
        (b"(S'ls'\nios\nsystem\n.", "os.system"),
        (b"\x80\x02N.cos\nsystem\n)R.", "os.system"),
        (
            b"\x80\x02T\x03\0\0\0a\nbU\x01cC\x01xB\x01\0\0\0yL1L\nI1\nF1.0\ncnt\nsystem\n.",
            "nt.system",
        ),
        (
            b"\x80\x02\x8b\x02\0\0\0\x01\x01\x82\x01\x83\x01\x00\x84\x01\0\0\0cnt\nsystem\n.",
            "nt.system",
        ),
        (b"\x80\x04K\x01K\x02\x93.", "computes"),
    ],
)  # fmt: skip
def test_names_are_found_in_pickles_of_every_protocol(pickle, names):
    report = verified(changed(**{"constants.pkl": pickle}))
    assert report.verdict == "hostile"
    assert any(f.rule == "pickle-global" and names in f.message for f in report.findings)


def test_the_name_of_a_subclass_is_a_note():
    report = verified(changed(**{"constants.pkl": SUBCLASS}))
    assert [finding.rule for finding in report.findings] == ["pickle-subclass"]
    assert (report.verdict, report.ok) == ("unusual", True)


def test_hostile_wins_over_broken():
    members = {"constants.pkl": b"cos\nsystem\n.", "data.pkl": b"no"}
    report = verified(changed(**members))
    assert {Nature.BROKEN, Nature.HOSTILE} <= {f.nature for f in report.findings}
    assert report.verdict == "hostile"


def test_code_of_a_wrong_class_is_looked_at_although_data_is_broken():
    report = verified(changed(**{"data.pkl": b"no", CODE: b"import os\n" + TEXT}))
    assert {"pickle-malformed", "code-import"} <= {f.rule for f in report.findings}


def test_records_that_are_damaged_are_not_read_further():
    data = bytearray(WHOLE)
    data[WHOLE.index(DATA) + 40] ^= 0x55
    rules = {f.rule for f in verified(bytes(data)).findings if f.record == "data.pkl"}
    assert rules == {"zip-crc"}


def _tagged(value):
    return Reduce(Global("torch.jit._pickle", "restore_type_tag"), ([value], "List[Any]"))


@pytest.mark.parametrize("wrap", [lambda value: (value,), _tagged], ids=["tuples", "lists"])
@pytest.mark.parametrize("depth", [10, 198, 199, 200, 250])
def test_values_are_too_deep_where_loading_says_so(depth, wrap):
    value = 1
    for _ in range(depth):
        value = wrap(value)
    data = changed(**{"constants.pkl": dumps((value,))})
    importer = Importer(Container.open(io.BytesIO(data)), None)
    rules = {finding.rule for finding in verified(data).findings}
    if depth < 200:
        importer.constant(0)
        assert rules == set()
    else:
        with pytest.raises(PickleError, match="too deeply"):
            importer.constant(0)
        assert rules == {"pickle-depth"}


def test_a_stack_that_is_exhausted_is_a_finding(monkeypatch):
    def exhausted(self, step):
        raise RecursionError

    monkeypatch.setattr(TorchScriptCheck, "run", exhausted)
    report = verified(changed())
    assert [finding.rule for finding in report.findings if finding.severity != "info"] == [
        "record-depth"
    ]
    assert report.kind == "torchscript"


def test_code_beyond_the_cap_is_not_read(monkeypatch):
    monkeypatch.setattr(checking, "MAX_CODE_BYTES", 100)
    for data in (changed(), archive(model_of()).read()):
        report = verified(data)
        assert report.findings[0].rule == "code-size"
        assert (report.code_records, report.verdict) == (0, "hostile")


def test_messages_are_one_line_and_short():
    name = "x" * 5000
    report = verified(naming("os", name))
    assert all(len(f.message) < 400 and "\n" not in f.message for f in report.findings)


def test_old_models_of_any_json():
    for model in ({}, [], json.loads('{"protoVersion": "9"}')):
        report = verified(archive(json.dumps(model)).read())
        assert report.findings[0].record == "model.json"
        assert report.verdict == "broken"


@pytest.mark.parametrize("shift", [0, 100, 300])
def test_a_hole_of_one_block_is_told_wherever_it_lies(shift):
    written = io.BytesIO()
    torch.save({f"t{index}": torch.full((60,), 7.5) for index in range(20)}, written)
    whole = written.getvalue()
    begin = whole.index(struct.pack("<2f", 7.5, 7.5)) + 600 + shift
    report = verified(whole[:begin] + bytes(512) + whole[begin + 512 :])
    assert "file-hole" in {finding.rule for finding in report.findings}
    hints = [finding.hint or "" for finding in report.findings]
    assert not any("tsarchive verify" in hint for hint in hints)
    assert not any("x00" in finding.message for finding in report.findings)
