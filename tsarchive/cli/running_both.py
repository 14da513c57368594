"""Running both models of a comparison: options, inputs, and what is told of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click

from .inputs import InputsCommand, gather, input_options, is_file
from .options import chosen_policy, import_option, limit_options, policy_options, together

if TYPE_CHECKING:
    from tsarchive.diffing import Divergence

_RUN: Final = "--run"


class PairCommand(InputsCommand):
    """Takes two files from ``arguments``, as ``a`` and ``b``; others are inputs, after --run.

    Options named in ``alone`` are given without files.
    """

    alone: ClassVar[Sequence[str]] = ("install_git", "textconv")
    marked: ClassVar[Sequence[str]] = (_RUN, *InputsCommand.marked)

    def split(self, params: dict[str, Any]) -> None:
        """Take the two files out of ``arguments``."""
        given = params["arguments"]
        files = [place for place, argument in enumerate(given) if is_file(argument)]
        params["a"], params["b"], *_ = (*(given[place] for place in files), "", "")
        rest = [argument for place, argument in enumerate(given) if place not in files[:2]]
        params["arguments"] = rest
        if any(params[name] for name in self.alone):
            if given:
                raise click.UsageError("This takes no two files.")
        elif len(files) < 2:
            name = "A" if not files else "B"
            raise click.MissingParameter(param_hint=f"'{name}'", param_type="argument")
        elif len(files) > 2 and len(files) - 2 == len(rest):
            raise click.UsageError(
                f"Got a third file ({given[files[2]]}); inputs of the models stand after --run."
            )


# The options of a command that may run two models.
run_options = together(
    click.option(
        _RUN,
        multiple=True,
        expose_value=False,
        metavar="INPUTS",
        help="Run both, with inputs from this .npy, .npz or .pt (and others after it).",
    ),
    input_options,
    click.option("--method", default="forward", show_default=True, help="Which method to call."),
    click.option("--model", metavar="NAME", help="Which model of a PT2 archive to run."),
    click.option("--rtol", default=1e-5, show_default=True, help="Relative tolerance of results."),
    click.option("--atol", default=1e-8, show_default=True, help="Absolute tolerance of results."),
    import_option,
    policy_options,
    limit_options,
)


def run_arguments(arguments: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``tsarchive.diff`` that the options stand for; none without inputs.

    Raises click.UsageError for inputs that cannot be read.
    """
    if not arguments:
        return {}
    from tsarchive.diffing import Call
    from tsarchive.policy import Limits

    inputs = gather(arguments, given["seed"])
    return {
        "run": Call(inputs.args, inputs.kwargs, given["method"], given["seed"], given["model"]),
        "rtol": given["rtol"],
        "atol": given["atol"],
        "policy": chosen_policy(given["allow"], trust=given["trust"]),
        "limits": Limits(given["max_steps"], given["max_seconds"], given["max_bytes"]),
    }


def told(found: Divergence | None) -> Iterator[str]:
    """Yield what to say of the results of both, in lines."""
    if found is None:
        yield "run: both give the same results"
        return
    yield f"run: the first other result is that of {found.where or 'the model'}, {found.class_name}"
    yield f"  before: {found.before}"
    yield f"  after:  {found.after}"
    if found.values is not None:
        values = found.values
        share = f"{values.differing:,} of {values.elements:,} elements differ"
        yield f"  {share}, {values.special or f'by {values.max_absolute:.3g} at most'}"
    if found.source is not None:
        yield f"  from:   {found.source}"
