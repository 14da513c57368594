"""The checklist for files of the formats that follow TorchScript: what is in them stays shut.

No reader of these formats is asked here: opening, loading and looking run nothing of theirs.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest
from test_audit_pickles import CALL, audited, rules_of, zip_of

import tsarchive

PROGRAM = {"archive_format": b"pt2", "archive_version": b"0", "models/model.json": b"{}"}
NATIVE = b"\x7fELF" + bytes(100)


@pytest.fixture
def events() -> Iterator[list[str]]:
    """Names of audit events since the test began, when all that is imported late has been."""
    audited(zip_of(PROGRAM))
    refused(zip_of(PROGRAM))
    seen: list[str] = []
    is_on = True

    def hook(event: str, _arguments: object) -> None:
        if is_on:
            seen.append(event)

    sys.addaudithook(hook)
    yield seen
    is_on = False


def refused(data: bytes) -> None:
    with pytest.raises(tsarchive.ArchiveError):
        tsarchive.load(io.BytesIO(data))


@pytest.mark.parametrize("record", ["weights", "constants"])
@pytest.mark.parametrize("is_used", [True, False])
def test_use_pickle_is_told_and_never_honoured(record, is_used, events):
    config = b'{"config": {"w": {"path_name": "w_0", "use_pickle": %s}}}' % (
        b"true" if is_used else b"false"
    )
    folder = f"data/{record}"
    data = zip_of(
        {**PROGRAM, f"{folder}/model_{record}_config.json": config, f"{folder}/w_0": CALL}
    )
    assert ("record-use-pickle" in rules_of(audited(data))) == is_used
    refused(data)
    assert "pickle.find_class" not in events
    assert "os.system" not in events


@pytest.mark.parametrize("name", ["data/aotinductor/model/code.so", "extra/notes.txt"])
def test_native_payloads_are_listed_and_never_loaded(name, events):
    report = audited(zip_of({**PROGRAM, name: NATIVE}))
    assert [(p.record, p.format) for p in report.payloads] == [(name, "ELF")]
    refused(zip_of({**PROGRAM, name: NATIVE}))
    assert "ctypes.dlopen" not in events


@pytest.mark.parametrize("path", ["../../outside", "/etc/passwd", "w_0"])
def test_path_names_lead_to_no_file(path, events):
    config = b'{"config": {"w": {"path_name": "%s", "use_pickle": false}}}' % path.encode()
    data = zip_of({**PROGRAM, "data/weights/model_weights_config.json": config})
    audited(data)
    refused(data)
    assert "open" not in events


@pytest.mark.parametrize("depth", [10, 100_000])
def test_json_may_be_of_any_depth_and_keys_may_repeat(depth):
    deep = b'{"config": ' + b"[" * depth + b"]" * depth + b', "config": {}, "config": []}'
    data = zip_of({**PROGRAM, "data/weights/model_weights_config.json": deep})
    assert audited(data).kind == "pt2"
    refused(data)


@pytest.mark.parametrize(
    ("magic", "kind"),
    [
        (b"ET12", "ExecuTorch program"),
        (b"BP08", "ExecuTorch bundled program"),
        (b"FT01", "ExecuTorch data"),
    ],
)
@pytest.mark.parametrize("rest", [b"", b"\xff" * 64, b"eh00" + b"\xff" * 28])
def test_flatbuffers_are_known_by_their_magic_and_their_offsets_are_not_followed(magic, kind, rest):
    data = b"\xff\xff\xff\xff" + magic + rest
    assert audited(data).kind == kind
    refused(data)
    assert audited(b"\xff\xff\xff\xff" + magic[:2] + b"xx" + rest).kind == "unknown"
