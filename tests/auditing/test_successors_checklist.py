"""The checklist for files of the formats that follow TorchScript: what is in them stays shut.

No reader of these formats is asked here: opening, loading and looking run nothing of theirs.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType

import pytest
import torch

import tsarchive
from fixtures.hostile_samples.exported import SAMPLES
from fixtures.hostile_samples.exported_archive import archive, saved
from tests.support.auditing import CALL, audited, rules_of, zip_of
from tests.support.pt2_archives import fixture, records_in

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


# PT2 archives: each way in which a file makes torch run something, at each door of ours

FORBIDDEN = frozenset(
    {
        "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork",
        "subprocess.Popen", "ctypes.dlopen", "socket.connect", "urllib.Request",
    }
)  # fmt: skip
# What the payloads name; the code that runs has none of it.
NAMED = frozenset({"__import__", "getcwd", "antigravity", "__subclasses__"})


def old(record: str) -> bytes:
    """A file of torch 2.4 with a pickle that calls."""
    return zip_of({**records_in(fixture("linear-2.4")), record: saved(CALL)})


CLASSES: dict[str, tuple[Callable[[], bytes], str]] = {
    "expr_str evaluated by sympy": (SAMPLES["expression-import"].make, "code-expression"),
    "expr_str with text in text": (SAMPLES["expression-string"].make, "code-expression"),
    "expr_str of a payload": (SAMPLES["expression-in-payload"].make, "code-expression"),
    "range_constraints evaluated": (SAMPLES["range-key"].make, "code-expression"),
    "guards_code run at a call": (SAMPLES["guard-call"].make, "code-guard"),
    "guards_code with a line of its own": (SAMPLES["guard-comment"].make, "code-guard"),
    "guards_code that walks to builtins": (SAMPLES["guard-member"].make, "code-guard"),
    "sample inputs unpickled": (SAMPLES["inputs-call"].make, "record-unpickled"),
    "sample inputs without a zip": (SAMPLES["inputs-raw-pickle"].make, "record-unpickled"),
    "weights by use_pickle": (SAMPLES["weight-pickled"].make, "record-use-pickle"),
    "weights by a hidden use_pickle": (SAMPLES["weight-escaped-flag"].make, "record-use-pickle"),
    "opaque objects": (SAMPLES["opaque-object"].make, "record-use-pickle"),
    "custom objects": (SAMPLES["custom-object"].make, "record-use-pickle"),
    "state of an old layout": (lambda: old("serialized_state_dict.pt"), "record-unpickled"),
    "constants of an old layout": (lambda: old("serialized_constants.pt"), "record-unpickled"),
    "inputs of an old layout": (
        lambda: old("serialized_example_inputs.pt"), "record-unpickled",
    ),
    "default factories imported": (SAMPLES["tree-import"].make, "program-import"),
    "targets looked up in modules": (SAMPLES["target-os-system"].make, "program-target"),
    "targets of Python's operator": (SAMPLES["target-attrgetter"].make, "program-target"),
    "operators on files": (SAMPLES["target-from-file"].make, "operator-files"),
    "libraries of AOTInductor": (SAMPLES["native-library"].make, "record-native"),
}  # fmt: skip


def _look(data: bytes) -> None:
    with tsarchive.open(io.BytesIO(data)) as opened:
        for part in (
            lambda: list(opened.code.values()),
            lambda: opened.tensors,
            opened.tree,
            lambda: opened.needs,
            lambda: opened.exported.signature("model"),
        ):
            _tried(part)


def _load(data: bytes) -> None:
    _tried(lambda: tsarchive.load(io.BytesIO(data))(torch.ones(8)))


def _tried(action: Callable[[], object]) -> None:
    """It gives a result or refuses."""
    with suppress(tsarchive.ArchiveError):
        action()


DOORS: dict[str, Callable[[bytes], object]] = {
    "open": _look,
    "verify": lambda data: tsarchive.verify(io.BytesIO(data)),
    "audit": lambda data: tsarchive.audit(io.BytesIO(data)),
    "load": _load,
}


@pytest.fixture
def ran() -> Iterator[list[str]]:
    """What happened since the test began that no reader may do."""
    seen: list[str] = []
    is_on = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if not is_on:
            return
        if event in FORBIDDEN or (event == "import" and arguments[0] in NAMED):
            seen.append(f"{event} {arguments}")
        elif event == "exec" and isinstance(arguments[0], CodeType):
            seen.extend(NAMED.intersection(arguments[0].co_names))

    sys.addaudithook(hook)
    yield seen
    is_on = False


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CLASSES)
def test_nothing_of_a_pt2_archive_runs(name, door, ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, _ = CLASSES[name]
    DOORS[door](make())
    assert ran == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", CLASSES)
def test_the_audit_tells_each_class_by_a_rule(name):
    make, rule = CLASSES[name]
    assert rule in rules_of(audited(make()))
    assert rule not in rules_of(audited(archive()))


def test_the_hook_sees_what_it_is_for(ran):
    exec(compile("__import__('os').getcwd", "<payload>", "eval"))
    assert ran
