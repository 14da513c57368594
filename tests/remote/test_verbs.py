"""What each verb asks of a file elsewhere, format by format, and that its results are the same."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import tsarchive
from fixtures.executorch_samples import DATA, FILES, LINEAR, LINEAR_DATA, WEIGHT, data_file, program
from tests.support.archives import FIXTURES
from tests.support.command_line import SEQUENTIAL, document, run
from tests.support.elsewhere import Seekable
from tests.support.pt2_archives import records_in
from tsarchive.container import NewRecord, write_container
from tsarchive.container.opening import open_source
from tsarchive.formats.registry import format_named

MIB, KIB = 1 << 20, 1 << 10
WEIGHTS = Random(3).randbytes(2 * MIB)


def rewritten(records: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    write_container(stream, [NewRecord(name, data) for name, data in records.items()])
    return stream.getvalue()


def padded(file: Path | bytes, *names: str) -> bytes:
    """An archive with 2 MiB of weights more, behind its first record, in records of these names."""
    records = records_in(io.BytesIO(file) if isinstance(file, bytes) else file)
    first = next(iter(records))
    return rewritten({first: records.pop(first), **dict.fromkeys(names, WEIGHTS), **records})


def around(file: Path) -> bytes:
    """A PT2 archive with files of torch.save, each of which has 2 MiB of weights more."""
    records = records_in(file)
    weights = ("weights/", "constants/", "state_dict.", "constants.")
    return rewritten(
        {
            name: padded(data, "data/9") if any(part in name for part in weights) else data
            for name, data in records.items()
        }
    )


def checkpoint() -> bytes:
    stream = io.BytesIO()
    torch.save({"weight": torch.zeros(MIB // 2)}, stream)
    return stream.getvalue()


def before_torch_1_6() -> bytes:
    stream = io.BytesIO()
    torch.save({"weight": torch.zeros(MIB)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def big_program() -> bytes:
    data = LINEAR_DATA + WEIGHTS
    return program({**LINEAR, "segments": [{"offset": 0, "size": len(data)}]}, data)


def big_data() -> bytes:
    first, *others = DATA["segments"]
    size = len(WEIGHTS) + first["size"]
    moved = [{**each, "offset": each["offset"] + len(WEIGHTS)} for each in others]
    values = {**DATA, "segments": [{**first, "size": size}, *moved]}
    return data_file(values, WEIGHT.ljust(first["size"], b"\0") + WEIGHTS + bytes(256) + b"hello")


FILES_ELSEWHERE: dict[str, Callable[[], bytes]] = {
    "torchscript": lambda: padded(FIXTURES / "archives/sequential.pt", "data/99"),
    "torchscript of 1.6": lambda: padded(FIXTURES / "removed/1.6.pt", "constants/99"),
    "legacy": lambda: padded(FIXTURES / "legacy/kinds-1.1.0.pt", "tensors/99"),
    "pt2": lambda: padded(FIXTURES / "pt2/two_models.pt2", "data/weights/weight_99"),
    "pt2 of 2.8": lambda: around(FIXTURES / "pt2/shared-2.8.pt2"),
    "pt2 of 2.4": lambda: around(FIXTURES / "pt2/nested-2.4.pt2"),
    "torch.save": checkpoint,
    "torch.save before 1.6": before_torch_1_6,
    "unknown zip": lambda: rewritten({"readme.txt": b"hello", "weights.npy": WEIGHTS}),
    "pte": big_program,
    "ptd": big_data,
    "text": lambda: b"hello world\n" * MIB,
}
FORMATS = sorted(FILES_ELSEWHERE)
_made: dict[str, bytes] = {}


def made(name: str) -> bytes:
    if name not in _made:
        _made[name] = FILES_ELSEWHERE[name]()
    return _made[name]


def on(ask: Callable[[tsarchive.Archive], Any]) -> Callable[[Any], Any]:
    def verb(file: Any) -> Any:
        with tsarchive.open(file) as archive:
            return ask(archive)

    return verb


VERBS: dict[str, Callable[[Any], Any]] = {
    "open": on(lambda archive: [*archive.records]),
    "info": on(lambda a: format_named(a.kind).describe(a, "net.pt", a.nbytes)),
    "tree": on(lambda archive: archive.tree()),
    "code": on(lambda archive: dict(archive.code)),
    "tensors": on(lambda archive: (dict(archive.tensors), archive.totals)),
    "needs": on(lambda archive: archive.needs),
    "debug": on(lambda archive: {name: [*found] for name, found in archive.debug.items()}),
    "audit": lambda file: tsarchive.audit(file, weights=False),
    "fingerprint": lambda file: tsarchive.fingerprint(file, weights=False),
    "compat": tsarchive.compat,
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "audit": lambda file: tsarchive.audit(file, weights=True),
    "fingerprint": tsarchive.fingerprint,
    "verify": tsarchive.verify,
}
# Of these nothing tells where weights are, so an audit reads all.
READ_WHOLE = {"text", "torch.save before 1.6", "unknown zip"}
# Weights are in files of torch.save, each of which has a directory of its own.
NESTED = {"pt2 of 2.4", "pt2 of 2.8"}


def outcome(verb: Callable[[Any], Any], file: Any) -> Any:
    try:
        return repr(verb(file))
    except tsarchive.ArchiveError as error:
        return type(error), str(error)


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    target = tmp_path / "net.pt"
    target.write_bytes(made(name))
    return target


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", FORMATS)
def test_looking_takes_two_requests(name, verb, path):
    file = Seekable(made(name))
    assert outcome(VERBS[verb], file) == outcome(VERBS[verb], path)
    if verb == "audit" and name in READ_WHOLE:
        return
    assert file.nbytes <= (288 if name in NESTED else 256) * KIB
    assert file.reads <= (3 if name in NESTED else 2)


@pytest.mark.parametrize("name", ["torchscript", "pt2"])
def test_looking_at_what_the_end_holds_takes_one_request(name):
    for verb in VERBS.keys() - {"info", "audit"}:
        file = Seekable(made(name))
        VERBS[verb](file)
        assert (verb, file.reads) == (verb, 1)


def with_inputs_ahead() -> bytes:
    """An archive whose inputs and programs stand together among weights, as torch writes them."""
    records = records_in(FIXTURES / "pt2/linear.pt2")
    inputs = {name: records.pop(name) for name in [*records] if "sample_inputs" in name}
    assert inputs
    first, last = "data/weights/weight_98", "data/weights/weight_99"
    return rewritten({first: WEIGHTS, **inputs, **records, last: WEIGHTS})


def test_example_inputs_are_fetched_with_programs():
    for verb, most in (("tree", 2), ("info", 2), ("audit", 3)):
        file = Seekable(with_inputs_ahead())
        VERBS[verb](file)
        assert (verb, file.reads) == (verb, most)


def test_the_start_is_looked_at_where_the_directory_does_not_tell_of_it(tmp_path):
    """A program of ExecuTorch to which an archive was appended is one here and elsewhere."""
    path = tmp_path / "both"
    path.write_bytes((FIXTURES / "executorch" / "linear.pte").read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("weights.npy", WEIGHTS)
    for file in (path, Seekable(path.read_bytes())):
        with tsarchive.open(file) as found:
            assert found.kind == "pte"


@pytest.mark.parametrize("verb", WHOLE)
@pytest.mark.parametrize("name", FORMATS)
def test_reading_all_takes_few_requests_and_no_byte_twice(name, verb, path):
    file = Seekable(made(name))
    assert outcome(WHOLE[verb], file) == outcome(WHOLE[verb], path)
    assert file.nbytes <= len(made(name))
    assert file.reads <= 5


@pytest.mark.parametrize("name", ["torchscript", "pt2 of 2.4", "torch.save before 1.6", "pte"])
def test_what_is_left_of_a_damaged_file_is_saved(name, tmp_path):
    damaged = made(name)[:-300]
    path = tmp_path / "net.pt"
    path.write_bytes(damaged)

    def salvaged(file: Any) -> tuple[Any, bytes]:
        out = io.BytesIO()
        return outcome(lambda given: tsarchive.salvage(given, out), file), out.getvalue()

    assert salvaged(Seekable(damaged)) == salvaged(path)
    for verb in (*VERBS.values(), *WHOLE.values()):
        assert outcome(verb, Seekable(damaged)) == outcome(verb, path)


@pytest.mark.parametrize("name", ["torchscript", "pt2", "pte"])
def test_a_limit_does_not_keep_from_reading_all(name):
    with tsarchive.RemoteLimits(requests=2, nbytes=256 * KIB).in_force():
        assert tsarchive.verify(Seekable(made(name))).nbytes == len(made(name))
        assert tsarchive.fingerprint(Seekable(made(name))).tensors


@pytest.mark.parametrize("name", ["torchscript", "pt2", "pt2 of 2.4", "pte"])
def test_what_an_audit_leaves_unread_is_a_finding(name):
    def unread(**weights: bool) -> list[str]:
        found = tsarchive.audit(Seekable(made(name)), **weights).findings
        return [each.hint for each in found if each.rule == "record-unread"]

    assert unread()
    assert set(unread()) == {"Audit all of it: weights=True, on the command line --weights"}
    assert unread(weights=True) == []


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("hello",)


def with_evil_weights() -> bytes:
    records = records_in(FIXTURES / "pt2/nested-2.4.pt2")
    stream = io.BytesIO()
    torch.save({"a": torch.zeros(MIB), "b": Evil()}, stream)
    return rewritten({**records, "serialized_state_dict.pt": stream.getvalue()})


def test_pickles_of_weights_are_looked_into():
    data = with_evil_weights()
    file = Seekable(data)
    named = [found.name for found in tsarchive.audit(file).pickled_names if not found.reason]
    assert "__builtin__.print" in named
    assert file.nbytes < len(data) // 4


def test_traffic_is_told():
    file = Seekable(made("torchscript"))
    with tsarchive.open(file) as archive:
        assert archive.traffic == tsarchive.Traffic(file.reads, file.nbytes)
        archive.read("data/99")
        assert archive.traffic == tsarchive.Traffic(file.reads, file.nbytes)
        assert archive.traffic.nbytes > len(WEIGHTS)
    assert archive.container


def test_files_here_have_no_traffic(tmp_path):
    for name in ("torchscript", "pte"):
        target = tmp_path / "net"
        target.write_bytes(made(name))
        for source in (target, io.BytesIO(made(name))):
            with tsarchive.open(source) as archive:
                assert archive.traffic is None
                assert archive.nbytes == len(made(name))


def test_info_tells_what_was_fetched(monkeypatch):
    monkeypatch.setattr(
        "tsarchive.formats.registry.open_source", lambda _: open_source(Seekable(made("pte")))
    )
    found = document("info", "net.pte")["traffic"]
    assert found.keys() == {"requests", "nbytes"}
    nbytes, requests = found["nbytes"], found["requests"]
    text = f"fetched {nbytes:,} bytes in {requests} requests"
    assert text in " ".join(run("info", "net.pte").output.split())


def test_the_command_leaves_weights_unread_on_request():
    def unread(*options: str) -> bool:
        findings = document("audit", SEQUENTIAL, *options)["findings"]
        return any(finding["rule"] == "record-unread" for finding in findings)

    assert (unread(), unread("--weights"), unread("--no-weights")) == (False, False, True)


# Fixtures of all kinds, of which next to nothing comes with the first request. What verbs make of
# a file is tested elsewhere: here one in a few of each folder stands for the others.
ONE_IN = 6


def fixtures() -> Iterator[Path]:
    for suffix in ("pt", "pt2", "pte", "ptd", "bpte", "bin"):
        found = sorted(FIXTURES.rglob(f"*.{suffix}"))
        for _, files in groupby(found, lambda file: file.parent):
            yield from [*files][::ONE_IN]


@pytest.fixture
def no_end(monkeypatch):
    """Have the first request give one byte, and further ones what they are for."""
    monkeypatch.setattr("tsarchive.container.ranges._TAIL_BYTES", 1)
    monkeypatch.setattr("tsarchive.container.ranges._GAP_BYTES", 16)
    monkeypatch.setattr("tsarchive.container.directory._MAX_COMMENT", 0)
    monkeypatch.setattr("tsarchive.formats.registry._AHEAD_BYTES", 64)


EVERYTHING = {
    **{f"{name}, looking": verb for name, verb in VERBS.items()},
    **{f"{name}, all": verb for name, verb in WHOLE.items()},
    "records": on(lambda archive: [(name, archive.read(name)) for name in archive.records]),
    "offsets": on(lambda archive: [record.offset for record in archive.records.values()]),
}


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=str(file.relative_to(FIXTURES))) for file in fixtures()]
)
def test_results_are_those_of_the_file_itself(file, no_end):
    data = file.read_bytes()
    there = {name: outcome(verb, Seekable(data)) for name, verb in EVERYTHING.items()}
    assert there == {name: outcome(verb, file) for name, verb in EVERYTHING.items()}


def test_fixtures_are_found():
    assert len([*fixtures()]) > 150
    assert set(FILES) >= {"linear.pte", "data.ptd"}
