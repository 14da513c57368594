"""What an audit says of pickles: every way to name and call a global, and every hiding place."""

from __future__ import annotations

import base64
import collections
import io
import pickle
import pickletools
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from tests.support.auditing import CALL, archive_with, audited, rules_of, zip_of
from tsarchive import Nature, Severity
from tsarchive.auditing import files
from tsarchive.scanning import pickle_names
from tsarchive.scanning.pickle_names import CALLS_ITS_ARGUMENT, Use, row_of_name
from tsarchive.scanning.pickle_walk import _SPECIAL


def severity_of(data: bytes) -> Severity | None:
    return max((finding.severity for finding in audited(data).findings), default=None)


def errors_of(data: bytes) -> set[str]:
    report = audited(data)
    return {f.rule for f in report.findings if f.severity is Severity.ERROR}


# One pickle for each way of the protocols to name, call, make or change something.
FORMS = {
    "GLOBAL and REDUCE": (CALL, "pickle-call"),
    "STACK_GLOBAL": (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "pickle-call"),
    "STACK_GLOBAL through the memo": (
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x9400h\x00h\x01\x93\x8c\x04true\x85R.",
        "pickle-call",
    ),
    "INST": (b"(S'true'\nios\nsystem\n.", "pickle-call"),
    "OBJ": (b"(cos\nsystem\nS'true'\no.", "pickle-call"),
    "NEWOBJ": (b"\x80\x02csubprocess\nPopen\nX\x04\0\0\0true\x85\x81.", "pickle-make"),
    "NEWOBJ_EX": (b"\x80\x04csubprocess\nPopen\n)}\x92.", "pickle-make"),
    "BUILD of a global": (b"\x80\x02ctorch\n_utils\n}b.", "pickle-change"),
    "an item of a global": (b"\x80\x02csys\nmodules\nU\x02osNs.", "pickle-change"),
    "items of a global": (b"\x80\x02csys\nmodules\n(U\x02osNu.", "pickle-change"),
    "EXT1": (b"\x80\x02\x82\x01)R.", "pickle-extension"),
    "EXT4": (b"\x80\x02\x84\x01\0\0\0)R.", "pickle-extension"),
    "call of a result": (b"coperator\nattrgetter\n(S'x'\ntR)R.", "pickle-computed-call"),
    "call of an unknown value": (b"\x80\x02]q\0h\0)R.", "pickle-computed-call"),
    "a name alone": (b"cos\nsystem\n.", "pickle-name"),
    "through the memo": (b"cos\nsystem\nq\x000h\0(S'true'\ntR.", "pickle-call"),
    "DUP": (b"cos\nsystem\n2(S'true'\ntR.", "pickle-call"),
    "copyreg._reconstructor": (b"ccopyreg\n_reconstructor\n(cbdb\nBdb\nNNtR.", "pickle-make"),
    "base of copyreg._reconstructor": (
        b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbdb\nBdb\nNtR.", "pickle-make"
    ),
    "text that only some readers take": (b"(S'\xc3\xa9'\n" + CALL, "pickle-call"),
    "defaultdict": (b"ccollections\ndefaultdict\n(cos\nabort\ntR.", "pickle-call"),
    "rebuilding a subclass": (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nN(S'true'\ntNtR.", "pickle-call"
    ),
    "a storage that is called": (b"ctorch\nLongStorage\n(K\x01tR.", "pickle-call"),
    "a module that looks like torch": (b"ctorch.hub\nload\n(S'a'\ntR.", "pickle-call"),
    "part of a harmless module": (b"cuuid\n_get_command_stdout\n(S'a'\ntR.", "pickle-call"),
    "attribute of an allowed class": (
        b"\x80\x04\x8c\x08builtins\x8c\x0bstr.__mro__\x93)R.", "pickle-call"
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_an_error(form):
    data, rule = FORMS[form]
    assert rule in errors_of(data)


@pytest.mark.parametrize("form", ["GLOBAL and REDUCE", "STACK_GLOBAL", "NEWOBJ"])
@pytest.mark.parametrize(
    "hide",
    [
        lambda data: data[:-1],
        lambda data: data[:-1] + b"\xff\xff",
        lambda data: b"\x80\x02}." + data,
        lambda data: b"\x80\x04]." * 3 + data,
        lambda data: pickle.dumps({"weights": data}),
        lambda data: pickle.dumps({"weights": base64.b64encode(data).decode()}),
        lambda data: pickle.dumps({"weights": data.hex()}),
        lambda data: pickle.dumps(["x", pickle.dumps({"y": data})]),
        lambda data: zip_of({"data.pkl": data}),
        lambda data: zip_of({"data.pkl": data}, method=zipfile.ZIP_DEFLATED),
        lambda data: zip_of({"data.pkl": b"\x80\x02}.", "data/0": data}),
        lambda data: zip_of({"README.txt": data}),
        lambda data: zip_of({"inner.zip": zip_of({"data.pkl": data})}),
        lambda data: tar_of(data),
        lambda data: npy_of(data),
    ],
    ids=[
        "without STOP", "then junk", "second pickle", "fourth pickle", "bytes", "base 64", "hex",
        "bytes in bytes", "zip", "deflated", "tensor record", "text file", "zip in zip", "tar",
        "npy",
    ],
)  # fmt: skip
def test_a_call_is_found_wherever_it_is(form, hide):
    assert errors_of(hide(FORMS[form][0]))


def tar_of(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("pickle")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def npy_of(data: bytes) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|O", "fortran_order": False, "shape": (1,)}
    )
    return buffer.getvalue() + data


@pytest.mark.parametrize("junk", [b"\0" * 100, b"\xff" * 33, b"GIF89a", b"#!/bin/sh\n", b"\n"])
def test_a_pickle_behind_junk_is_hidden(junk):
    assert "pickle-hidden" in errors_of(junk + FORMS["STACK_GLOBAL"][0])


@pytest.mark.parametrize("damage", ["crc", "name", "method", "flags"])
def test_a_container_that_is_refused_is_looked_into(damage):
    data = bytearray(zip_of({"data.pkl": CALL}, method=zipfile.ZIP_DEFLATED))
    place = data.index(b"PK\x01\x02")
    offset = {"crc": 16, "name": 46, "method": 11, "flags": 8}[damage]
    data[place + offset] ^= 1 if damage != "method" else 0x80
    assert errors_of(bytes(data))


def test_a_refused_container_is_inflated_up_to_a_limit_that_is_told(monkeypatch):
    data = bytearray(zip_of({"a": bytes(100), "b": bytes(100)}, method=zipfile.ZIP_DEFLATED))
    data[data.index(b"PK\x01\x02") + 46] ^= 1
    assert "record-unread" not in rules_of(audited(bytes(data)))
    monkeypatch.setattr(files, "_MOST_INFLATED", 50)
    assert "record-unread" in rules_of(audited(bytes(data)))


@pytest.mark.parametrize("opcodes", [20, 21])
def test_a_pickle_that_is_too_long_is_a_finding(monkeypatch, opcodes):
    monkeypatch.setattr(pickle_names, "_FREE", 20)
    monkeypatch.setattr(pickle_names, "_MOST_READING", 20)
    report = audited(b"\x80\x02" + b"N" * (opcodes - 2) + b".")
    assert ("pickle-unfinished" in rules_of(report)) == (opcodes > 20)


def test_pickles_and_records_have_one_budget(monkeypatch):
    monkeypatch.setattr(pickle_names, "_FREE", 100)
    monkeypatch.setattr(pickle_names, "_MOST_READING", 100)
    one = b"\x80\x02" + b"N" * 30 + b"0" * 29 + b"."
    assert "pickle-unfinished" not in rules_of(audited(one))
    assert "pickle-unfinished" in rules_of(audited(one * 3))
    records = {f"{number}.pkl": one for number in range(3)}
    assert "pickle-unfinished" in rules_of(audited(zip_of(records)))


def test_names_that_the_memo_joins_are_short_and_kept_once():
    text = b"X\x10\x27\0\0" + b"a" * 10_000 + b"q\0"
    report = audited(b"\x80\x04" + text + b"h\0h\0\x930" * 50 + b"N.")
    (name,) = report.pickled_names
    assert len(name.name) < 1000


@pytest.mark.parametrize("letter", [b"c", b"i", b"a.", b"c\n"])
def test_a_long_run_of_letters_is_no_pickle(letter):
    assert rules_of(audited(letter * 100_000)) == {"file-kind"}


def test_a_call_behind_a_long_run_of_letters_is_found():
    assert "pickle-hidden" in errors_of(b"\xff" + b"c" * 100_000 + CALL)


def test_a_call_behind_a_very_long_argument_is_found():
    length = (1 << 24) + 1
    text = b"\x80\x02X" + length.to_bytes(4, "little") + bytes(length) + b"0"
    assert "pickle-call" in errors_of(text + CALL)


def test_findings_of_a_rule_and_texts_in_them_are_bounded():
    saves = "        torch.save(x, a)\n" * 300
    code = (
        f"class Net(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    a = {'y' * 9999!r}\n"
    )
    report = audited(archive_with(code + saves.replace("        ", "    ") + "    return x\n"))
    files = [f for f in report.findings if f.rule == "operator-files"]
    assert len(files) == 101
    assert all(len(finding.message) < 600 for finding in files)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.norm = torch.nn.BatchNorm1d(2)


ORDINARY = {
    "state_dict": Small().state_dict(),
    "optimizer": torch.optim.Adam(Small().parameters()).state_dict(),
    "containers": {"a": [1, 2.5, "x", None, True, (1, 2), {3}, b"raw", 1 + 2j, 10**30]},
    "ordered": collections.OrderedDict(a=1),
    "dtypes": [torch.float16, torch.int64, torch.device("cpu"), torch.Size([1, 2])],
    "sparse": torch.eye(3).to_sparse(),
    "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "numpy": np.arange(4.0),
    "numpy scalar": np.float32(1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "legacy"])
def test_ordinary_content_of_torch_save_is_fine(name, is_zip):
    buffer = io.BytesIO()
    torch.save(ORDINARY[name], buffer, _use_new_zipfile_serialization=is_zip)
    report = audited(buffer.getvalue())
    assert report.ok, report.findings
    assert report.kind == ("torch.save" if is_zip else "torch.save (legacy)")
    assert all(name.reason for name in report.pickled_names)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_pickles_of_every_protocol_are_fine(protocol):
    value = {"a": [1, 2**70, -1.5, "ü\n", None, True], "b": (1, {2}, frozenset({3}), b"\xff")}
    value["again"] = value["a"]
    assert audited(pickle.dumps(value, protocol)).ok


@pytest.mark.filterwarnings("ignore")
def test_a_whole_pickled_module_is_a_warning():
    buffer = io.BytesIO()
    torch.save(torch.nn.Linear(2, 2), buffer)
    report = audited(buffer.getvalue())
    assert {f.severity for f in report.findings} == {Severity.WARNING}
    assert {f.nature for f in report.findings} == {Nature.ABILITY}


def test_a_break_is_a_finding_and_what_stands_before_it_counts():
    report = audited(CALL[:-1])
    assert {"pickle-call", "pickle-broken"} <= rules_of(report)


@pytest.mark.parametrize("data", [b"\x80\x04\x95", b"\x80\x02(", b"\x80\x02h\x05.", b"\x80\x02R."])
def test_a_broken_pickle_is_never_silent(data):
    assert "pickle-broken" in rules_of(audited(data))


def test_code_of_an_archive_makes_no_name_of_python_harmless():
    records = {
        "data.pkl": CALL,
        "code/os.py": b"class system(Module):\n  __parameters__ = []\n",
        "constants.pkl": b"\x80\x02).",
        "version": b"3",
    }
    assert errors_of(zip_of(records))
    assert "pickle-call" in {f.rule for f in audited(zip_of(records)).findings}


def test_a_package_may_run_its_own_code_and_nothing_else():
    def package(pickled: bytes) -> bytes:
        return zip_of(
            {".data/extern_modules": b"torch\n", "a/b.py": b"class C: pass\n", "m/m.pkl": pickled}
        )

    own = audited(package(b"\x80\x02ca.b\nC\n)\x81}b."))
    assert own.kind == "torch.package"
    assert {f.severity for f in own.findings} == {Severity.WARNING}
    assert {"record-python", "pickle-make"} == rules_of(own)
    called = b"\x80\x02(X\x0e\0\0\0reduce_packageK\0cos\nsystem\n)tQ."
    assert "pickle-call" in errors_of(package(called))


@pytest.mark.parametrize(("name", "is_known"), [("a.cpp", True), ("a.so", True), ("a.bin", False)])
def test_files_of_other_types_beside_machine_code_are_told(name, is_known):
    record = f"data/aotinductor/model/{name}"
    report = audited(zip_of({"archive_format": b"pt2", record: b"content"}))
    unknown = {f.record for f in report.findings if f.rule == "record-unknown"}
    assert unknown == (set() if is_known else {record})


def test_pt2_archives_tell_what_they_unpickle_and_load():
    report = audited(
        zip_of(
            {
                "archive_format": b"pt2",
                "data/weights/model_weights_config.json": b'{"w": {"use_pickle": true}}',
                "data/sample_inputs/model.pt": zip_of({"data.pkl": CALL, "version": b"3"}),
                "data/aotinductor/model/code.so": b"\x7fELF" + bytes(100),
            }
        )
    )
    assert report.kind == "pt2"
    assert rules_of(report) == {
        "record-use-pickle", "record-native", "pickle-call", "record-unpickled",
        "record-unreferenced",
    }  # fmt: skip
    (payload,) = report.payloads
    assert (payload.record, payload.format) == ("data/aotinductor/model/code.so", "ELF")
    (native,) = [found for found in report.findings if found.rule == "record-native"]
    assert "load_pt2" in native.hint
    assert "as they open the file" in native.hint
    assert [name.record for name in report.pickled_names if name.is_called] == [
        "data/sample_inputs/model.pt/data.pkl"
    ]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x7fELF", "ELF"),
        (b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0", "PE"),
        (b"\xcf\xfa\xed\xfe", "Mach-O"),
        (b"#!/bin/sh\n", "script"),
        (b"BC\xc0\xde", "LLVM bitcode"),
    ],
)
def test_native_code_is_told_by_its_bytes(head, kind):
    report = audited(zip_of({"data.pkl": b"\x80\x02}.", "data/0": head + bytes(64)}))
    assert [payload.format for payload in report.payloads] == [kind]
    assert "record-native" in {f.rule for f in report.findings if f.severity is Severity.ERROR}
    assert severity_of(head + bytes(64)) is Severity.ERROR


def test_native_code_is_told_by_its_name():
    report = audited(zip_of({"data.pkl": b"\x80\x02}.", "lib/a.so.1": bytes(64)}))
    assert [payload.format for payload in report.payloads] == ["named .so.1"]


def test_records_of_no_format_are_named():
    report = audited(zip_of({"data.pkl": b"\x80\x02}.", "version": b"3", "notes.txt": b"hello"}))
    assert [(f.rule, f.record) for f in report.findings] == [("record-unknown", "notes.txt")]
    assert report.ok
    assert report.groups["other"].records == 1


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"<html></html>", b"\x1f\x8b" + bytes(20), b"\0\0\0\0PTMF" + bytes(9)]
)
def test_what_is_not_looked_into_is_a_finding(data):
    report = audited(data)
    assert rules_of(report) == {"file-kind"}
    assert not report.ok


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"<!doctype html><html></html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"", "empty"),
        (b"hello", "the file you mean"),
    ],
)
def test_what_is_no_model_is_told_by_its_content(data, what):
    (finding,) = audited(data).findings
    assert what in finding.hint


# The tables.


def test_every_special_opcode_exists():
    assert set(_SPECIAL) <= {opcode.name for opcode in pickletools.opcodes}


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "torch.load", "uuid.getnode"])
def test_the_table_has_no_row_for_what_acts(name):
    assert row_of_name(name) is None


def test_functions_that_call_an_argument_have_rows():
    assert all(row_of_name(name).use is Use.CALL for name in CALLS_ITS_ARGUMENT)
