"""Old names go on working: each warns once, where it is used, and gives the same."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
import torch

import tsarchive
from tests.support.archives import FIXTURES
from tsarchive import renaming
from tsarchive.converting import Conversion
from tsarchive.renaming import renamed

FILE: Final = str(FIXTURES / "archives" / "sequential.pt")


def _optimized(**given: Any) -> Any:
    return tsarchive.optimize(tsarchive.load(FILE).eval(), **given)


Call = Callable[..., Any]
# The function, its arguments by their old names, by the new ones, and what is compared.
CALLS: Final[dict[str, tuple[Call, dict[str, Any], dict[str, Any], Call]]] = {
    "audit": (tsarchive.audit, {"source": FILE}, {"f": FILE}, repr),
    "check_jitter": (tsarchive.check_jitter, {"source": FILE}, {"f": FILE}, repr),
    "fingerprint": (tsarchive.fingerprint, {"source": FILE}, {"f": FILE}, str),
    "missing": (tsarchive.missing, {"source": FILE}, {"f": FILE}, repr),
    "open": (tsarchive.open, {"source": FILE}, {"f": FILE}, lambda found: found.kind),
    "Limits": (tsarchive.Limits, {"bytes": 8}, {"nbytes": 8}, repr),
    "optimize": (_optimized, {"example": torch.ones(1, 3)}, {"args": torch.ones(1, 3)}, repr),
    "TensorTotals": (
        tsarchive.TensorTotals,
        {"count": 1, "elements": 2, "storages": 1, "bytes": 8},
        {"count": 1, "elements": 2, "storages": 1, "nbytes": 8},
        repr,
    ),
    "to_exported_program": (
        lambda **given: tsarchive.to_exported_program(FILE, **given),
        {"example_inputs": (torch.ones(1, 3),)},
        {"args": (torch.ones(1, 3),)},
        lambda program: str(program.graph),
    ),
}
PATHS: Final[dict[str, tuple[Call, dict[str, str], str]]] = {
    "convert": (tsarchive.convert, {"src": "f", "dst": "out"}, "net.safetensors"),
    "decompile": (tsarchive.decompile, {"directory": "out"}, "package"),
}
"""What writes: the function, its old names with the new ones, and what it writes."""

FIELDS: Final[dict[str, tuple[Any, dict[str, str]]]] = {
    "AuditReport": (tsarchive.audit(FILE), {"size": "nbytes"}),
    "Conversion": (
        Conversion("a.pt", "torchscript", "b.pt2", "pt2", 8),
        {"source": "file", "destination": "out", "source_kind": "file_kind"},
    ),
    "DecompileReport": (tsarchive.DecompileReport("net", "Net", ()), {"directory": "out"}),
    "Limits": (tsarchive.Limits(1, 2.0, 3), {"bytes": "nbytes"}),
    "Page": (tsarchive.Page("net.pt", None, "net.html", "", (), None), {"path": "out"}),
    "TensorTotals": (tsarchive.TensorTotals(1, 2, 1, 8), {"bytes": "nbytes"}),
    "VerifyReport": (
        replace(tsarchive.verify(FILE), expected_nbytes=9),
        {"bytes": "nbytes", "expected_bytes": "expected_nbytes"},
    ),
    "WrittenFile": (tsarchive.WrittenFile("net.py", 8), {"size": "nbytes"}),
}


def warned(call: Callable[[], Any]) -> tuple[Any, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [each for each in found if each.category is DeprecationWarning
                    and "is now" in str(each.message)]  # fmt: skip


def check(found: list[warnings.WarningMessage], names: dict[str, str]) -> None:
    assert [each.filename for each in found] == [__file__] * len(names)
    told = sorted(str(each.message).partition("'")[2] for each in found)
    for text, old in zip(told, sorted(names), strict=True):
        assert text.startswith(f"{old}' of ")
        assert text.endswith(f" is now '{names[old]}'")


@pytest.mark.parametrize("name", CALLS)
def test_arguments_by_their_old_names(name):
    function, old, new, seen = CALLS[name]
    (before, found), (after, none) = (
        warned(lambda: function(**old)),
        warned(lambda: function(**new)),
    )
    assert seen(before) == seen(after)
    assert none == []
    check(found, {gone: next(iter(new.keys() - old.keys())) for gone in old.keys() - new.keys()})


@pytest.mark.parametrize("name", PATHS)
def test_places_by_their_old_names(name, tmp_path):
    function, names, written = PATHS[name]
    given = {"f": FILE, "out": str(tmp_path / written)}
    old = {new: gone for gone, new in names.items()}
    before, found = warned(lambda: function(**{old.get(n, n): v for n, v in given.items()}))
    check(found, names)
    given["out"] = str(tmp_path / f"again_{written}")
    after, none = warned(lambda: function(*given.values()))
    assert none == []
    assert replace(before, out="", **_beside(before)) == replace(after, out="", **_beside(after))


def _beside(report: Any) -> dict[str, Any]:
    """The fields that hold the place, too."""
    return {"data": None} if isinstance(report, Conversion) else {}


@pytest.mark.parametrize("name", FIELDS)
def test_attributes_by_their_old_names(name):
    report, names = FIELDS[name]
    values, found = warned(lambda: [getattr(report, old) for old in names])
    assert values == [getattr(report, new) for new in names.values()]
    check(found, names)
    assert warned(lambda: [getattr(report, new) for new in names.values()])[1] == []


def test_signatures_show_the_new_names_alone():
    for name, (function, old, new, _) in CALLS.items():
        shown = inspect.signature(getattr(tsarchive, name)).parameters
        assert not shown.keys() & (old.keys() - new.keys()), function
    for function, names, _ in PATHS.values():
        assert not inspect.signature(function).parameters.keys() & names.keys()


def test_the_tables_have_every_old_name():
    """Each public function that takes old names stands in a table above, and so each class."""
    public = {name: getattr(tsarchive, name) for name in tsarchive.__all__}
    wrapped = {
        name
        for name, function in public.items()
        if inspect.isfunction(function) and function.__code__.co_filename == renaming.__file__
    }
    assert wrapped <= CALLS.keys() | PATHS.keys()
    made = {n for n, c in public.items() if inspect.isclass(c) and _takes_old_names(c)}
    assert made == FIELDS.keys()


def _takes_old_names(cls: type) -> bool:
    return getattr(cls.__init__, "__module__", "") == cls.__module__ and any(
        (value.__doc__ or "").startswith("The old name of ")
        for value in vars(cls).values()
        if isinstance(value, property)
    )


def test_an_argument_has_one_name_in_a_call():
    @renamed(source="f")
    def read(f: str) -> str:
        return f

    with pytest.raises(TypeError, match="got 'source', the old name of 'f'"):
        read(f="a", source="b")  # type: ignore[call-arg]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match="multiple values for argument 'f'"):
            read("a", source="b")  # type: ignore[call-arg]
