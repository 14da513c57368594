"""``tsarchive demo``: the whole promise, kept on real models in front of your eyes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsarchive.cli.call_inputs import Inputs
from tsarchive.cli.command import FINDINGS, json_option
from tsarchive.cli.imports import import_option
from tsarchive.cli.inputs import InputsCommand, gather, input_options, split_file
from tsarchive.cli.output import print_json
from tsarchive.cli.progress import progress

if TYPE_CHECKING:
    from tsarchive.cli.trial import Trial

# Of the steps that one model takes, for the progress bar.
_STEPS = 4


@click.command(cls=InputsCommand)
@click.argument("arguments", nargs=-1, metavar="[FILE [INPUTS]...]")
@input_options
@import_option
@click.option("--trust", is_flag=True, help="Run a FILE that 'tsarchive audit' warns of.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    arguments: tuple[str, ...],
    *,
    seed: int,
    imports: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> None:
    """Try everything on real models.

    Without FILE: a ResNet-18 and a recurrent decoder are scripted and saved. A fresh process in
    which torch.jit is disabled loads and calls them and saves what it loaded; another one does
    the same with torch.jit. Outputs are compared with the original model to the bit.

    With FILE: the same for your own file, whose outputs are compared with those of torch.jit.
    INPUTS, --arg and --random are as in 'tsarchive run'. torch.jit keeps a file from nothing: one
    that 'tsarchive audit' warns of is run with --trust only.

    The exit code is 1 when an output of tsarchive differs or its bytes are not stable.

    \b
    Examples:
      tsarchive demo
      tsarchive demo model.pt --random 1x3x224x224
    """
    file, rest = split_file(arguments)
    ctx.params["file"] = file
    if file is None and rest:
        raise click.UsageError("Inputs need a FILE: the models of the demo have their own.")
    with tempfile.TemporaryDirectory(prefix="tsarchive-demo-") as folder:
        if file is None:
            trials = _try_models(Path(folder))
        else:
            _require_usable(file, trust=trust)
            trials = _try_file(file, gather(rest, seed), Path(folder), imports)
    _present(trials, as_json=as_json)
    if not all(trial.ok for trial in trials):
        ctx.exit(FINDINGS)


def _try_models(folder: Path) -> list[Trial]:
    from tsarchive.cli.subjects import MODELS, model_subject
    from tsarchive.cli.trial import attempt

    trials = []
    with progress(_STEPS * len(MODELS)) as step:
        for name, module, class_name in MODELS:
            step(f"{name}: scripting and saving it")
            (folder / name).mkdir()
            subject = model_subject(name, module, class_name, folder / name)
            trials.append(attempt(subject, step))
    return trials


def _require_usable(file: str, *, trust: bool) -> None:
    """Refuse what is no TorchScript archive, and what torch.jit should not run."""
    import tsarchive

    with tsarchive.open(file) as archive:
        _ = archive.root
    if trust:
        return
    report = tsarchive.audit(file)
    if not report.ok:
        raise click.ClickException(
            f"torch.jit would run it as it is, and the audit warns: {report.findings[0].message}. "
            "'tsarchive audit' lists all; --trust runs it."
        )


def _try_file(file: str, inputs: Inputs, folder: Path, imports: tuple[str, ...]) -> list[Trial]:
    from tsarchive.cli.subjects import file_subject
    from tsarchive.cli.trial import attempt

    with progress(_STEPS - 1) as step:
        return [attempt(file_subject(file, inputs, folder, imports), step)]


def _present(trials: list[Trial], *, as_json: bool) -> None:
    import torch

    from tsarchive.cli.trial_report import document, show

    if as_json:
        print_json(
            {
                "torch": torch.__version__,
                "threads": 1,
                "models": [document(trial) for trial in trials],
                "ok": all(trial.ok for trial in trials),
            }
        )
    else:
        show(trials)
