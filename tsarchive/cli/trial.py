"""Trying a model with tsarchive and with torch.jit: times, outputs, bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tsarchive.cli.children import TORCH_JIT, TSARCHIVE, Answer, ask
from tsarchive.cli.failures import Failure, ReportedFailure
from tsarchive.cli.measuring import Reply, Request
from tsarchive.cli.subjects import Subject
from tsarchive.container import Container
from tsarchive.jitter import RecordDifference, differences

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Side:
    """What one side did with a model; times are in seconds, None when ``error`` is not.

    ``outputs_equal``: to the bit, with the original model or, for a user's file, with torch.jit;
    None where there is nothing to compare with. ``stable``: saving, loading and saving again
    gave the same bytes; ``first_difference`` is None also when they differ outside of records.
    """

    bytes: int
    records: int
    load_seconds: float | None = None
    first_call_seconds: float | None = None
    second_call_seconds: float | None = None
    outputs_equal: bool | None = None
    max_difference: float | None = None
    stable: bool | None = None
    first_difference: RecordDifference | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """Both sides; ``torch_jit_reads_ours``: torch.jit ran what tsarchive saved, with equal
    outputs. None when there is nothing to compare with."""

    name: str
    tsarchive: Side
    torch_jit: Side
    torch_jit_reads_ours: bool | None

    @property
    def ok(self) -> bool:
        """No finding: nothing differs that could be compared."""
        found = (
            self.tsarchive.outputs_equal,
            self.tsarchive.stable,
            self.torch_jit_reads_ours,
        )
        return False not in found


def attempt(subject: Subject, step: Step) -> Trial:
    """Run both sides, each in a fresh process. Raises ReportedFailure when ours fails."""
    step(f"{subject.name}: tsarchive loads, calls and saves it")
    ours = ask(TSARCHIVE, _request(subject, "tsarchive", subject.ours), str(subject.folder))
    if "error" in ours:
        raise ReportedFailure(ours["error"])
    step(f"{subject.name}: torch.jit does the same")
    theirs = ask(TORCH_JIT, _request(subject, "torch_jit", subject.theirs), str(subject.folder))
    step(f"{subject.name}: torch.jit reads what tsarchive saved")
    crossed = ask(TORCH_JIT, _crossed_request(subject), str(subject.folder))
    return Trial(
        subject.name,
        _side(subject, "tsarchive", subject.ours, ours),
        _side(subject, "torch_jit", subject.theirs, theirs),
        _reads_ours(subject, theirs, crossed),
    )


def _outputs(subject: Subject, name: str) -> Path:
    return subject.folder / f"outputs_{name}.pt"


def _request(subject: Subject, side: str, file: Path) -> Request:
    return Request(
        file=str(file),
        inputs=str(subject.inputs),
        outputs=str(_outputs(subject, side)),
        first_save=str(subject.save_path(side, "first")),
        second_save=str(subject.save_path(side, "second")),
        imports=subject.imports,
    )


def _crossed_request(subject: Subject) -> Request:
    return Request(
        file=str(subject.save_path("tsarchive", "first")),
        inputs=str(subject.inputs),
        outputs=str(_outputs(subject, "crossed")),
        first_save=None,
        second_save=None,
        imports=subject.imports,
    )


def _side(subject: Subject, name: str, file: Path, answer: Answer) -> Side:
    with Container.open(file) as container:
        size, records = file.stat().st_size, len(container.records)
    if "error" in answer:
        return Side(size, records, error=answer["error"])
    reply: Reply = answer["reply"]
    saves = [subject.save_path(name, "first"), subject.save_path(name, "second")]
    if subject.expected:
        # This side has written the file itself: that is the first of three saves.
        saves.insert(0, file)
    return Side(
        size, records, **reply, **_comparison(subject, name), **_stability(saves), error=None
    )


def _reference(subject: Subject) -> Path:
    return subject.expected or _outputs(subject, "torch_jit")


def _comparison(subject: Subject, name: str) -> dict[str, Any]:
    import torch

    from tsarchive.cli.comparison import compare

    reference, outputs = _reference(subject), _outputs(subject, name)
    if reference == outputs or not reference.exists():
        return {}
    first, second = (torch.load(path, weights_only=True) for path in (reference, outputs))
    found = compare(first, second)
    return {"outputs_equal": found.equal, "max_difference": found.max_difference}


def _stability(saves: list[Path]) -> dict[str, Any]:
    contents = [path.read_bytes() for path in saves]
    for first, second in pairwise(contents):
        if first != second:
            difference = next(iter(differences(first, second)), None)
            return {"stable": False, "first_difference": difference}
    return {"stable": True}


def _reads_ours(subject: Subject, theirs: Answer, crossed: Answer) -> bool | None:
    if not subject.expected and "error" in theirs:
        return None
    if "error" in crossed:
        return False
    equal: bool = _comparison(subject, "crossed")["outputs_equal"]
    return equal
