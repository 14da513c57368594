# pyright: strict
"""Every public name as users write it, with the type that mypy and pyright are to infer.

Type-checked, not run.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from hypothesis import given
from typing_extensions import assert_type

import tsarchive
from tsarchive import library, pickler, testing


def save(net: torch.nn.Module, x: torch.Tensor) -> None:
    assert_type(tsarchive.save(net, "net.pt"), None)
    tsarchive.save(net, Path("net.pt"), extra_files={"labels.txt": "cat dog", "icon": b"\0"})
    exported = torch.export.export(net, (x,))
    tsarchive.save(exported, "net.pt2")
    tsarchive.save({"encoder": exported}, "nets.pt2", canonical=True)


def load(file: BinaryIO) -> torch.Tensor:
    net: torch.nn.Module = tsarchive.load("net.pt", map_location=torch.device("cpu"))
    extra_files: dict[str, Any] = {"labels.txt": ""}
    with_layers = tsarchive.load(file, modules="torch", extra_files=extra_files)
    assert_type(with_layers, torch.nn.Module)
    result: torch.Tensor = net(torch.ones(1, 4))
    return result


def load_under_a_policy() -> None:
    policy = assert_type(tsarchive.Policy.default(), tsarchive.Policy)
    policy = assert_type(policy.forbid("aten::save"), tsarchive.Policy)
    limits = tsarchive.Limits(steps=1_000_000, seconds=2.5, nbytes=1 << 30)
    assert_type(limits.seconds, float | None)
    tsarchive.load("net.pt", policy=policy, limits=limits)


def load_from_elsewhere() -> None:
    limits = tsarchive.RemoteLimits(requests=8, nbytes=1 << 20)
    with limits.in_force(), tsarchive.open("https://example.com/net.pt") as archive:
        traffic = assert_type(archive.traffic, tsarchive.Traffic | None)
        if traffic is not None:
            assert_type(traffic.requests, int)


def look_inside() -> None:
    with tsarchive.open("net.pt") as archive:
        assert_type(archive, tsarchive.Archive)
        assert_type(archive.kind, str)
        assert_type(archive.code, Mapping[str, str])
        assert_type(archive.tensors, Mapping[str, tsarchive.TensorInfo])
        assert_type(archive.totals, tsarchive.TensorTotals)
        assert_type(archive.tree(), tsarchive.ModuleInfo)
        assert_type(archive.needs, tsarchive.Needs)
        assert_type(archive.written_by, tsarchive.WrittenBy | None)
        assert_type(archive.extra_files, Mapping[str, bytes])
        missing = assert_type(tsarchive.missing(archive), tsarchive.Missing)
    assert_type(missing.operators, tuple[str, ...])
    assert_type(tsarchive.stub("net.pt"), str)


def check() -> list[tsarchive.Finding]:
    checked = assert_type(tsarchive.verify("net.pt"), tsarchive.VerifyReport)
    audited = assert_type(tsarchive.audit("net.pt", weights=True), tsarchive.AuditReport)
    assert_type(checked.ok, bool)
    assert_type(audited.ok, bool)
    grave = [each for each in checked.findings if each.severity >= tsarchive.Severity.ERROR]
    return [each for each in grave if each.nature is tsarchive.Nature.BROKEN]


def salvage() -> None:
    report = assert_type(tsarchive.salvage("half.pt", "rest.safetensors"), tsarchive.SalvageReport)
    assert_type(report.saved, tuple[tsarchive.SavedTensor, ...])
    assert_type(report.lost, tuple[tsarchive.LostTensor, ...])
    assert_type(report.saved[0].shape, tuple[int, ...])


def compare_saves() -> None:
    report = assert_type(tsarchive.check_jitter("net.pt"), tsarchive.JitterReport)
    assert_type(report.stable, bool)
    assert_type(report.records, tuple[tsarchive.RecordDifference, ...])
    assert_type(report.as_read, tsarchive.ReadComparison | None)
    assert_type(report.twice, tsarchive.SaveComparison)
    assert_type(report.graph, tsarchive.GraphReport)
    assert_type(report.graph.unprinted, tuple[tsarchive.Unprinted, ...])


def compare_models() -> None:
    fingerprint = assert_type(tsarchive.fingerprint("net.pt"), tsarchive.Fingerprint)
    assert_type(fingerprint.model, str)
    report = assert_type(tsarchive.diff("net.pt", "tuned.pt"), tsarchive.DiffReport)
    assert_type(report.changes, list[tsarchive.Change])
    assert_type(report.same, bool | None)
    assert_type(tsarchive.compat("net.pt", ["2.6.0"]), tsarchive.CompatReport)


def convert(x: torch.Tensor) -> torch.export.ExportedProgram:
    conversion = assert_type(
        tsarchive.convert("net.pt", "net.pt2", args=(x,)), tsarchive.Conversion
    )
    assert_type(conversion.notes, tuple[tsarchive.Note, ...])
    return tsarchive.to_exported_program("net.pt", (x,))


def optimize(x: torch.Tensor) -> tsarchive.OptimizeReport:
    fast = tsarchive.optimize(tsarchive.load("net.pt"), args=(x,))
    module: torch.nn.Module = fast
    tsarchive.save(module, "fast.pt")
    return tsarchive.optimize_report(fast)


def leave(x: torch.Tensor) -> None:
    plan = assert_type(tsarchive.leave("net.pt", args=(x,)), tsarchive.LeavingPlan)
    assert_type(plan.ways, tuple[tsarchive.WayOut, ...])
    package = tsarchive.decompile("net.pt", "net_source", check=True)
    assert_type(package, tsarchive.DecompileReport)
    assert_type(package.files, tuple[tsarchive.WrittenFile, ...])
    check = assert_type(package.check, tsarchive.CodeCheck | None)
    if check is not None:
        assert_type(check.methods, tuple[tsarchive.MethodCheck, ...])


def report() -> None:
    page = assert_type(tsarchive.report("net.pt", "net.html"), tsarchive.Page)
    assert_type(page.sections, tuple[tsarchive.SectionSize, ...])
    assert_type(page.html, str)


def survey() -> None:
    surveyed = assert_type(tsarchive.survey("models/", "survey"), tsarchive.Survey)
    dataset = assert_type(surveyed.dataset, tsarchive.Dataset)
    assert_type(dataset.files(), Iterator[tsarchive.FileRow])
    assert_type(dataset.findings(), Iterator[tsarchive.FindingRow])
    assert_type(surveyed.summary(), tsarchive.Summary)
    gate = assert_type(tsarchive.Gate.read("gate.toml"), tsarchive.Gate)
    assert_type(surveyed.check(gate), tsarchive.GateReport)


def handle_errors(path: str) -> str | float | None:
    try:
        tsarchive.load(path)
    except (tsarchive.MissingRecordError, tsarchive.PickleError) as error:
        return f"{error.record}, byte {error.offset}"
    except tsarchive.PolicyError as error:
        return assert_type(error.hint, str | None)
    except tsarchive.UnknownOperatorError as error:
        return assert_type(error.operator, str | None)
    except (tsarchive.UnknownClassError, tsarchive.TorchVersionError):
        return "another torch loads it"
    except tsarchive.SourceError as error:
        return str(error)
    except tsarchive.TargetError as error:
        return "; ".join(map(str, error.obstacles))
    except (tsarchive.LimitError, tsarchive.RemoteError) as error:
        return assert_type(error.limit, float | None)
    except (tsarchive.SaveError, tsarchive.CallError, tsarchive.ScriptError):
        return None
    except (tsarchive.FormatError, tsarchive.UnsupportedError) as error:
        return assert_type(error, tsarchive.FormatError | tsarchive.UnsupportedError).hint
    except tsarchive.ArchiveError as error:
        return assert_type(error.record, str | None)
    return None


def read_and_write_pickles(data: bytes) -> bytes:
    value: pickler.Value = pickler.loads(data, limits=pickler.Limits(max_repeats=1000))
    match value:
        case pickler.Object(cls=cls, memo=memo):
            assert_type(cls, pickler.Global)
            assert_type(memo, pickler.Memo)
        case pickler.Reduce(function=function):
            assert_type(function, pickler.Global)
        case pickler.PersistentId() | pickler.Memoised() | pickler.MarkedTuple():
            assert_type(value, pickler.PersistentId | pickler.Memoised | pickler.MarkedTuple)
        case _:
            pass
    return assert_type(pickler.dumps(value), bytes)


def use_library_modules(kind: type[torch.nn.Module]) -> None:
    library.register(kind)
    net = tsarchive.load("net.pt")
    assert_type(library.outcomes(net), list[library.Outcome])
    assert_type(library.recovered(net), library.Recovered | None)
    assert_type(library.with_library_modules(net), torch.nn.Module)
    for method in net.tsarchive_class.methods.values():
        assert_type(library.recovered_function(method), str | None)


def test_that_bytes_stay(net: torch.nn.Module) -> None:
    assert_type(testing.assert_no_jitter(net, canonical=True), None)


@given(testing.programs(), testing.traceable_programs())
def test_programs(scripted: testing.Program, traced: testing.Program) -> None:
    testing.assert_no_jitter(scripted.module())
    assert_type(traced.source, str)


@given(testing.mutated_archives(), testing.mutated_pickles(), testing.mutated_code())
def test_bad_files(archive: bytes, pickle: bytes, code: str) -> None:
    tsarchive.verify(io.BytesIO(archive))


@given(testing.mutated_programs([b"{}"]))
def test_bad_programs(program: bytes) -> None:
    tsarchive.verify(io.BytesIO(program))
