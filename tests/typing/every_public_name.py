"""A program that uses every public name, for type checkers: it is checked and not run.

What a call gives must be known to them without a word from the caller, as ``assert_type`` says.
"""
# pyright: strict

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import torch
from torch.export import ExportedProgram
from typing_extensions import assert_type

import tsarchive
from tsarchive import pickler


def save_and_load(module: torch.nn.Module, f: str, stream: BinaryIO) -> torch.nn.Module:
    tsarchive.save(module, f, extra_files={"labels.txt": "cat"}, canonical=True)
    tsarchive.save(module, stream, debug=False)
    policy = tsarchive.Policy(frozenset({"mylib::*"}))
    limits = tsarchive.Limits(steps=10_000, seconds=2.5, nbytes=1 << 30)
    net = tsarchive.load(f, map_location="cpu", policy=policy, limits=limits)
    assert_type(net.eval()(torch.ones(2)), Any)
    return net


def look(f: os.PathLike[str]) -> None:
    with tsarchive.open(f) as archive:
        assert_type(archive, tsarchive.Archive)
        assert_type(archive.kind, str)
        assert_type(archive.code, Mapping[str, str])
        assert_type(archive.tensors, Mapping[str, tsarchive.TensorInfo])
        assert_type(archive.totals, tsarchive.TensorTotals)
        assert_type(archive.tree(), tsarchive.ModuleInfo)
        assert_type(archive.needs, tsarchive.Needs)
        assert_type(archive.written_by, tsarchive.WrittenBy | None)
        assert_type(archive.traffic, tsarchive.Traffic | None)
        assert_type(archive.nbytes, int)
    missing = tsarchive.missing(f)
    assert_type(missing, tsarchive.Missing)
    assert_type(missing.hints, dict[str, str])
    assert_type(tsarchive.stub(f), str)


def look_elsewhere(url: str) -> None:
    limits = tsarchive.RemoteLimits(requests=10, nbytes=1 << 20)
    with limits.in_force(), tsarchive.open(url) as archive:
        print(archive.records)


def check(f: str) -> list[tsarchive.Finding]:
    verified, audited = tsarchive.verify(f, step=print), tsarchive.audit(f, weights=False)
    assert_type(verified, tsarchive.VerifyReport)
    assert_type(audited, tsarchive.AuditReport)
    assert_type(verified.ok, bool)
    found = [*verified.findings, *audited.findings]
    grave = [one for one in found if one.severity > tsarchive.Severity.INFO]
    return [one for one in grave if one.nature is tsarchive.Nature.HOSTILE]


def check_bytes(f: str) -> bool:
    report = tsarchive.check_jitter(f, canonical=True)
    assert_type(report, tsarchive.JitterReport)
    assert_type(report.twice, tsarchive.SaveComparison)
    assert_type(report.as_read, tsarchive.ReadComparison | None)
    assert_type(report.graph, tsarchive.GraphReport)
    assert_type(report.graph.unprinted, tuple[tsarchive.Unprinted, ...])
    differing: Sequence[tsarchive.RecordDifference] = report.records
    return report.stable and not differing


def compare(a: str, b: str) -> bool | None:
    same = tsarchive.fingerprint(a) == tsarchive.fingerprint(b, weights=False)
    assert_type(tsarchive.fingerprint(a), tsarchive.Fingerprint)
    report = tsarchive.diff(a, b, only=["code"], run=(torch.ones(2),))
    assert_type(report, tsarchive.DiffReport)
    changes: Sequence[tsarchive.Change] = report.changes
    return None if changes else same or report.same


def releases_that_run(f: str) -> list[str]:
    report = tsarchive.compat(f, ["2.6", "2.13"])
    assert_type(report, tsarchive.CompatReport)
    return [row.torch for row in report.rows if row.runs]


def convert(f: str, x: torch.Tensor) -> ExportedProgram:
    done = tsarchive.convert(f, "net.pt2", args=(x,), dynamic_shapes={"x": {0: None}})
    assert_type(done, tsarchive.Conversion)
    notes: list[tsarchive.Note] = []
    program = tsarchive.to_exported_program(f, (x,), told=notes.append)
    assert_type(program, ExportedProgram)
    return program


def leave(f: str, x: torch.Tensor) -> list[str]:
    plan = tsarchive.leave(f, args=(x,), only=["pt2"])
    assert_type(plan, tsarchive.LeavingPlan)
    working: list[tsarchive.WayOut] = [way for way in plan.ways if way.works]
    return [way.command for way in working]


def decompile(f: str, out: str) -> list[str]:
    done = tsarchive.decompile(f, out, check=True)
    assert_type(done, tsarchive.DecompileReport)
    files: Sequence[tsarchive.WrittenFile] = done.files
    assert_type(done.check, tsarchive.CodeCheck | None)
    methods: Sequence[tsarchive.MethodCheck] = done.check.methods if done.check else ()
    return [*(file.name for file in files), *(method.outcome for method in methods)]


def optimize(net: torch.nn.Module, x: torch.Tensor) -> float | None:
    fast = tsarchive.optimize(net, args=(x,))
    report = tsarchive.optimize_report(fast)
    assert_type(report, tsarchive.OptimizeReport)
    return report.seconds_after


def salvage(f: str) -> bool:
    report = tsarchive.salvage(f, "rest.safetensors", force=True)
    assert_type(report, tsarchive.SalvageReport)
    saved: Sequence[tsarchive.SavedTensor] = report.saved
    lost: Sequence[tsarchive.LostTensor] = report.lost
    return len(saved) > len(lost)


def report(f: str) -> dict[str, int]:
    page = tsarchive.report(f, "net.html", histograms="*.weight", rows=100)
    assert_type(page, tsarchive.Page)
    sections: Sequence[tsarchive.SectionSize] = page.sections
    return {section.name: section.nbytes for section in sections}


def survey(folder: str) -> bool:
    survey = tsarchive.survey(folder, "survey", format="jsonl", workers=0)
    assert_type(survey, tsarchive.Survey)
    assert_type(survey.summary(), tsarchive.Summary)
    assert_type(survey.dataset, tsarchive.Dataset)
    assert_type(survey.dataset.files(), Iterator[tsarchive.FileRow])
    assert_type(survey.dataset.findings(), Iterator[tsarchive.FindingRow])
    gate = tsarchive.Gate.of("[[rule]]\nname = 'small'\nrequire = { nbytes = '< 1 MiB' }")
    checked = survey.check(gate)
    assert_type(checked, tsarchive.GateReport)
    return checked.ok


def pickles(data: bytes) -> bytes:
    limits = pickler.Limits()
    value: pickler.Value = pickler.loads(data, record="data.pkl", limits=limits)
    match value:
        case pickler.Object(state=state):
            print(state)
        case pickler.Reduce(function=pickler.Global(module=module)):
            print(module)
        case pickler.PersistentId(value=key):
            print(key)
        case _:
            pass
    shared = pickler.Memoised([1, 2])
    always = pickler.Object(pickler.Global("__torch__", "Net"), {}, pickler.Memo.ALWAYS)
    return pickler.dumps([shared, always, pickler.MarkedTuple((1, 2))])


def errors(f: str) -> str:
    try:
        tsarchive.load(f)(torch.ones(2))
    except tsarchive.ScriptError as error:
        return str(error)
    except tsarchive.PolicyError as error:
        return error.operator
    except tsarchive.TargetError as error:
        return str(error.obstacles)
    except (tsarchive.UnknownOperatorError, tsarchive.SourceError) as error:
        return f"{error.line}: {error.construct}"
    except (
        tsarchive.CallError,
        tsarchive.FormatError,
        tsarchive.LimitError,
        tsarchive.MissingRecordError,
        tsarchive.PickleError,
        tsarchive.RemoteError,
        tsarchive.SaveError,
        tsarchive.TorchVersionError,
        tsarchive.UnknownClassError,
        tsarchive.UnsupportedError,
    ) as error:
        return f"{error.record}, {error.offset}, {error.limit}"
    except tsarchive.ArchiveError as error:
        fields: Any = (error.message, error.hint)
        return str(fields)
    return ""
