"""Where a mutant of an archive differs, told by its text, and what a comparison must say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tests.fingerprinting.mutants import Mutant, Records
from tsarchive.diffing import Change, DiffReport
from tsarchive.ir.names import unmangled

from .pickled import differing

# The kinds of changes that each kind of mutant may be told by; None where there is none.
_KINDS: dict[str, set[str]] = {
    "one ulp in a weight": {"tensor values"},
    "sign of zero": {"tensor values"},
    "payload of NaN": {"tensor values"},
    "operator": {"operator"},
    "operator added": {"code"},
    "operator removed": {"code"},
    "constant of a class": {"constant"},
    "integer of code": {"constant", "default"},
    "float of code": {"constant", "default"},
    "bool of code": {"constant"},
    "default of a parameter": {"default"},
    "order of arguments": {"code"},
    "scale of a quantizer": {"tensor quantization"},
    "value of an attribute": {"attribute"},
    "submodule renamed": {"module", "attribute renamed"},
    "shape of a tensor": {"tensor shape", "tensor values"},
    "dtype of tensors": {"tensor dtype"},
    "submodule added": {"module"},
    "submodule removed": {"module"},
    "attribute added": {"attribute"},
    "attribute removed": {"attribute"},
    "method added": {"method"},
    "method removed": {"method"},
    "an attribute and an element": {"attribute", "tensor values"},
    "extra file": {"extra file"},
    "other packing": set(),
    "other mangled numbers": set(),
}
_SEVERAL = {
    "one ulp in a weight", "sign of zero", "payload of NaN", "submodule renamed",
    "shape of a tensor", "dtype of tensors", "an attribute and an element",
}  # fmt: skip
# The kinds of mutants that change elements, and values in data.pkl.
_OF_ELEMENTS = ("one ulp in a weight", "sign of zero", "payload of NaN")
_OF_PICKLES = (
    "scale of a quantizer", "value of an attribute", "shape of a tensor", "dtype of tensors",
)  # fmt: skip
# Those that add or remove what has a name.
_OF_NAMES = (
    "submodule added", "submodule removed", "attribute added", "attribute removed", "method added",
    "method removed",
)  # fmt: skip
_HEAD = re.compile(r"^((?:  )?)(?:def|class) (\w+)")


def has_rule(kind: str) -> bool:
    """Return whether it is known by what a kind of mutant is told."""
    return kind in _KINDS


def faults(mutant: Mutant, before: Records, report: DiffReport, classes: Mapping[str, str]) -> str:
    """Return what is wrong with the changes that a report tells of a mutant, "" if nothing is.

    ``classes`` are the qualified names of the classes of modules by path.
    """
    kinds = {change.kind for change in report.changes}
    if not kinds <= _KINDS[mutant.kind] or bool(kinds) != bool(_KINDS[mutant.kind]):
        return f"of other kinds: {sorted(kinds)}"
    if mutant.kind not in _SEVERAL and len(report.changes) > 1:
        return f"{len(report.changes)} changes"
    for change in report.changes:
        is_place = _PLACES.get(mutant.kind, _is_in_code)
        if not is_place(change, mutant, before, classes):
            return f"at another place: {change.where}"
    told = {change.where for change in report.changes}
    missing = _expected(mutant, before, classes) - told
    return f"not told: {sorted(missing)}" if missing else ""


def _expected(mutant: Mutant, before: Records, classes: Mapping[str, str]) -> set[str]:
    """Return places of which each must be told."""
    if mutant.kind in _OF_PICKLES:
        return set(_in_pickle(mutant, before))
    if mutant.kind in _OF_ELEMENTS:
        return set(mutant.tensors or ())
    if mutant.kind == "an attribute and an element":
        return {*_in_pickle(mutant, before), *(mutant.tensors or ())}
    if mutant.kind == "submodule renamed":
        renamed = {path: _renamed_path(path, mutant) for path in classes}
        own = f"{mutant.where}_of_mutant"
        return {path for path in renamed.values() if path.rpartition(".")[2] == own}
    return set()


def _renamed_path(path: str, mutant: Mutant) -> str:
    words = path.split(".")
    return ".".join(f"{word}_of_mutant" if word == mutant.where else word for word in words)


def _in_pickle(mutant: Mutant, before: Records) -> list[str]:
    own = before if mutant.base is None else mutant.base
    return differing(own["data.pkl"], mutant.records["data.pkl"])


def _is_in_pickle(change: Change, mutant: Mutant, before: Records, *_: object) -> bool:
    return change.where in _in_pickle(mutant, before)


def _is_named(change: Change, mutant: Mutant, *_: object) -> bool:
    return change.where == mutant.where


def _is_either(change: Change, mutant: Mutant, before: Records, *_: object) -> bool:
    is_place = _is_tensor if change.kind == "tensor values" else _is_in_pickle
    return is_place(change, mutant, before)


def _is_extra_file(change: Change, mutant: Mutant, *_: object) -> bool:
    return f"extra/{change.where}" in mutant.records


def _is_tensor(change: Change, mutant: Mutant, *_: object) -> bool:
    names = mutant.tensors or frozenset()
    return any(name == change.where or name.startswith(f"{change.where}.") for name in names)


def _is_renamed(change: Change, mutant: Mutant, *_: object) -> bool:
    new = f"{mutant.where}_of_mutant"
    own, other = str(change.before).split("."), str(change.after).split(".")
    return change.where == change.after and own[-1] == mutant.where and other[-1] == new


def _is_in_code(
    change: Change, mutant: Mutant, before: Records, classes: Mapping[str, str]
) -> bool:
    path, _, member = change.where.partition("(")[0].rpartition(".")
    owner, own_member = place(before, mutant.records)
    if owner == "":
        return unmangled(own_member) == f"{path}.{member}"
    return member == own_member and unmangled(classes.get(path, path)) == unmangled(owner)


_PLACES: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(_OF_ELEMENTS, _is_tensor),
    **dict.fromkeys(_OF_PICKLES, _is_in_pickle),
    **dict.fromkeys(_OF_NAMES, _is_named),
    "an attribute and an element": _is_either,
    "submodule renamed": _is_renamed,
    "extra file": _is_extra_file,
}


def place(before: Records, after: Records) -> tuple[str, str]:
    """Return the class, and its method or constant, in which the first line of code differs.

    The class is "" for a function, whose qualified name is returned.
    """
    record = next(name for name in after if name.endswith(".py") and before[name] != after[name])
    texts = before[record].decode(), after[record].decode()
    letters = enumerate(zip(*texts, strict=False))
    start = next(place for place, (own, other) in letters if own != other)
    module = record.removeprefix("code/").removesuffix(".py").replace("/", ".")
    lines = texts[0][:start].split("\n")
    lines[-1] = texts[0].split("\n")[len(lines) - 1]
    owner = function = ""
    for line in lines:
        if head := _HEAD.match(line):
            is_class = line.lstrip().startswith("class ")
            if is_class or not head[1]:
                owner, function = (f"{module}.{head[2]}", "") if is_class else ("", head[2])
            else:
                function = head[2]
    if not owner:
        return "", f"{module}.{function}"
    return owner, function or lines[-1].split()[0]
