"""``tsarchive run --bundled``: the calls that a bundled program brings, and what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsarchive.cli.output import print_json, say
from tsarchive.errors import UnsupportedError

if TYPE_CHECKING:
    from tsarchive.formats.executorch.modules.bundled_cases import CaseResult


def run_bundled(model: Any, file: str, *, rtol: float, atol: float, as_json: bool) -> bool:
    """Make the calls and print what came of them; true where all are as expected."""
    from tsarchive.formats.executorch.modules.bundled_cases import check_cases

    results = list(check_cases(model, rtol=rtol, atol=atol))
    if not results:
        raise UnsupportedError("the bundled program brings no calls to compare")
    is_fine = all(result.ok for result in results)
    if as_json:
        print_json(_document(file, results, is_fine))
    else:
        _show(results)
    return is_fine


def _document(file: str, results: list[CaseResult], is_fine: bool) -> dict[str, Any]:
    cases = [
        {
            "method": result.method,
            "case": result.number,
            "ok": result.ok,
            "max_difference": result.max_difference,
            "problem": result.problem,
        }
        for result in results
    ]
    return {"file": file, "ok": is_fine, "cases": cases}


def _show(results: list[CaseResult]) -> None:
    for result in results:
        name = f"{result.method} case {result.number}"
        if result.problem is not None:
            say(f"{name}: {result.problem}", "red")
        elif result.max_difference is None:
            say(f"{name}: as expected")
        else:
            say(f"{name}: as expected, up to {result.max_difference:.3g} apart")
    failed = sum(not result.ok for result in results)
    style = "red" if failed else "green"
    say(f"{len(results) - failed:,} of {len(results):,} as expected", style)
