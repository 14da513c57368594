"""Files and calls that cannot work: an error of ours that names the place and the remedy."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, records_of, torch_saved
from tsarchive.container import NewRecord, write_container
from tsarchive.pickler import Global, Object, dumps

MODEL = ARCHIVES / "buffers.pt"


def packed(records: dict[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    kept = [NewRecord(n, c) for n, c in records.items() if n != ".data/serialization_id"]
    write_container(buffer, kept)
    buffer.seek(0)
    return buffer


@pytest.fixture
def records() -> dict[str, bytes]:
    return records_of(MODEL.read_bytes())


def code_name(records: dict[str, bytes]) -> str:
    return next(name for name in records if name.startswith("code/") and name.endswith(".py"))


@pytest.mark.parametrize("content", [b"", b"text", b"<html></html>", b"PK\x03\x04", bytes(100)])
def test_not_a_zip(tmp_path, content):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(tsarchive.FormatError, match="zip archive") as caught:
        tsarchive.load(path)
    assert caught.value.hint


def test_truncated_anywhere():
    data = MODEL.read_bytes()
    for length in range(0, len(data), 97):
        with pytest.raises(tsarchive.ArchiveError):
            tsarchive.load(io.BytesIO(data[:length]))


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        tsarchive.load(tmp_path / "absent.pt")


@pytest.mark.parametrize("name", ["data.pkl", "constants.pkl", "version"])
def test_a_missing_record(records, name):
    removed = next(full for full in records if full.endswith(name))
    del records[removed]
    with pytest.raises(tsarchive.MissingRecordError, match=name) as caught:
        tsarchive.load(packed(records))
    assert caught.value.record == name
    assert caught.value.hint


def test_a_missing_storage(records):
    del records["data/0"]
    with pytest.raises(tsarchive.MissingRecordError, match="data/0"):
        tsarchive.load(packed(records))


def test_a_storage_that_is_too_short(records):
    records["data/0"] = records["data/0"][:-1]
    with pytest.raises(tsarchive.PickleError, match="storage 0 holds"):
        tsarchive.load(packed(records))


@pytest.mark.parametrize("name", ["data.pkl", "constants.pkl", "code/"])
def test_a_damaged_record(name):
    data = bytearray((ARCHIVES / "trace_numbers.pt").read_bytes())
    with tsarchive.open(io.BytesIO(bytes(data))) as archive:
        record = next(r for full, r in archive.records.items() if full.startswith(name))
        data[record.offset + record.stored_size // 2] ^= 1
    calls = torch.load(ARCHIVES / "trace_numbers.io.pt", weights_only=True)["forward"]
    with pytest.raises(tsarchive.FormatError):
        tsarchive.load(io.BytesIO(bytes(data)))(*calls[0]["args"])


def test_a_state_dict(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(2)}, path)
    with pytest.raises(
        tsarchive.MissingRecordError, match=r"not a TorchScript archive.*torch\.load"
    ):
        tsarchive.load(path)


def test_an_unknown_class(records):
    del records[code_name(records)]
    with pytest.raises(tsarchive.UnknownClassError) as caught:
        tsarchive.load(packed(records))
    assert "__torch__" in str(caught.value)
    assert caught.value.hint


def test_an_unknown_torchbind_class(records):
    module, name = b"__torch__.torch.classes.nobody", b"Knows"
    data = records["data.pkl"]
    start = data.index(b"c__torch__")
    end = data.index(b"\n", data.index(b"\n", start) + 1)
    records["data.pkl"] = data[:start] + b"c" + module + b"\n" + name + data[end:]
    with pytest.raises(tsarchive.UnknownClassError, match=r"nobody\.Knows"):
        tsarchive.load(packed(records))


def changed_code(records: dict[str, bytes], old: str, new: str) -> io.BytesIO:
    name = code_name(records)
    text = records[name].decode()
    assert old in text
    records[name] = text.replace(old, new).encode()
    return packed(records)


def test_an_unknown_operator(records):
    module = tsarchive.load(changed_code(records, "torch.", "ops.nobody."))
    with pytest.raises(tsarchive.UnknownOperatorError, match="nobody::") as caught:
        module(torch.ones(3))
    assert caught.value.record == code_name(records)
    assert caught.value.line


def test_code_that_does_not_parse(records):
    with pytest.raises(tsarchive.SourceError, match=code_name(records)):
        tsarchive.load(changed_code(records, "return", "return ("))(torch.ones(3))


def test_a_pickle_of_another_program(records):
    records["data.pkl"] = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."
    with pytest.raises(tsarchive.ArchiveError, match=r"os\.system"):
        tsarchive.load(packed(records))


@pytest.mark.parametrize(
    ("arguments", "keywords", "named"),
    [
        ((), {}, "x"),
        (("text",), {}, "x"),
        ((torch.ones(3), 1, 2), {}, "argument"),
        ((torch.ones(3),), {"y": 1}, "y"),
    ],
)
def test_wrong_arguments(arguments, keywords, named):
    module = tsarchive.load(MODEL)
    with pytest.raises(tsarchive.CallError, match=named):
        module(*arguments, **keywords)


def test_errors_are_one_family_and_fit_ordinary_handlers():
    assert issubclass(tsarchive.FormatError, ValueError)
    assert issubclass(tsarchive.MissingRecordError, KeyError)
    assert issubclass(tsarchive.UnknownClassError, LookupError)
    assert issubclass(tsarchive.CallError, TypeError)
    error = tsarchive.FormatError("wrong", record="data.pkl", offset=3, limit=2, hint="Do this")
    assert str(error) == "wrong (record data.pkl, offset 3, limit 2). Do this"
    assert (error.record, error.offset, error.limit, error.hint) == ("data.pkl", 3, 2, "Do this")


STATEFUL = """class Root(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  n : int
  def __getstate__(self: __torch__.Root) -> int:
    return self.n
  def __setstate__(self: __torch__.Root, state: int) -> None:
    self.training = True
    self.n = torch.len(torch.ones([state]))
    return None
"""


def stateful(state):
    root = Object(Global("__torch__", "Root"), state)
    return packed(
        {
            "data.pkl": dumps(root),
            "code/__torch__.py": STATEFUL.encode(),
            "constants.pkl": dumps(()),
            "version": b"3\n",
        }
    )


def test_code_that_fails_while_loading():
    assert tsarchive.load(stateful(2)).n == 2
    with pytest.raises(tsarchive.ScriptError, match=r"__setstate__ of __torch__\.Root raised"):
        tsarchive.load(stateful(-1))


@pytest.mark.parametrize("state", [None, True, "2", (2,), [2]])
def test_a_state_that_setstate_does_not_take(state):
    with pytest.raises(tsarchive.PickleError, match="not what its __setstate__ takes"):
        tsarchive.load(stateful(state))


@pytest.mark.parametrize("state", [None, 1, (), (None, None), "text", {}])
def test_a_state_that_a_class_of_torch_does_not_take(state):
    cls = Global("__torch__.torch.classes.quantized", "LinearPackedParamsBase")
    text = STATEFUL.partition("  def")[0].replace("n : int", f"n : {cls.qualified_name}")
    root = Object(Global("__torch__", "Root"), {"training": True, "n": Object(cls, state)})
    records = {"data.pkl": dumps(root), "code/__torch__.py": text.encode()}
    with pytest.raises(tsarchive.ArchiveError):
        tsarchive.load(packed(records | {"constants.pkl": dumps(()), "version": b"3\n"}))


def test_a_storage_of_another_size_is_not_inflated():
    records = records_of(torch_saved(torch.jit.script(torch.nn.Linear(2, 2))))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**records, "data/0": bytes(1 << 26)}.items():
            archive.writestr(f"net/{name}", data)
    file.seek(0)
    tracemalloc.start()
    try:
        with pytest.raises(tsarchive.PickleError, match="holds 67108864 bytes"):
            tsarchive.load(file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
