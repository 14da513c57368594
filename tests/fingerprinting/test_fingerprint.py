"""Fingerprints: equal for one model however it is kept, and another for every change."""

from __future__ import annotations

import io
import os
import random
import re
import sys
import textwrap
from dataclasses import asdict
from itertools import permutations
from typing import Any, Optional, Union

import pytest
import torch

import tsarchive
from tests.support.archives import (
    ARCHIVES,
    ROOT,
    loaded,
    records_of,
    saved,
    torch_loaded,
    torch_saved,
)
from tests.support.suite import examples
from tests.support.verifying import METHODS, packed, zipped

from .mutants import KINDS, Original, mutants

ARCHIVE_NAMES = sorted(path.name for path in ARCHIVES.glob("*.pt") if ".io" not in path.name)
OLD = sorted(
    path.relative_to(ROOT / "fixtures").as_posix()
    for path in (ROOT / "fixtures" / "old").glob("*/*.pt")
    if ".io" not in path.name
)
LEGACY = sorted(
    path.name for path in (ROOT / "fixtures" / "legacy").glob("*.pt") if ".io" not in path.name
)
PARTS = ("code", "structure", "weights", "extra_files", "model")


def of(data: bytes, **options):
    return tsarchive.fingerprint(io.BytesIO(data), **options)


def differing(one, other) -> set[str]:
    return {part for part in PARTS if getattr(one, part) != getattr(other, part)}


def test_one_model_has_one_fingerprint(case):
    module = case.build()
    data = torch_saved(module)
    expected = of(data)
    forms = {
        "live": tsarchive.fingerprint(module),
        "saved": of(saved(module)),
        "canonical": of(saved(module, canonical=True)),
        "without debug records": of(saved(module, debug=False)),
        "loaded": tsarchive.fingerprint(loaded(data)),
        "saved again": of(saved(loaded(data))),
        "saved again by torch": of(torch_saved(torch_loaded(data))),
    }
    assert {name: asdict(found) for name, found in forms.items()} == dict.fromkeys(
        forms, asdict(expected)
    )


@pytest.mark.parametrize("name", OLD)
def test_an_old_archive_saved_again_has_its_fingerprint(name):
    data = (ROOT / "fixtures" / name).read_bytes()
    assert differing(of(data), of(saved(loaded(data)))) == set()


# What is spelled otherwise today: optional values, and numbers that tracing took for tensors.
_READ_ANEW = ("containers", "methods", "points", "recurrent", "recursive")


@pytest.mark.parametrize("name", LEGACY)
def test_an_archive_of_before_torch_1_3_has_the_fingerprint_of_its_new_form(name):
    data = (ROOT / "fixtures" / "legacy" / name).read_bytes()
    found = differing(of(data), of(saved(loaded(data))))
    assert found <= ({"code", "model"} if name.startswith(_READ_ANEW) else set())


@pytest.mark.parametrize("method", METHODS)
def test_packing_means_nothing(method):
    data = (ARCHIVES / "sequential.pt").read_bytes()
    assert of(zipped(records_of(data), root="other", method=METHODS[method])) == of(data)


def test_a_path_a_file_and_bytes_are_alike(tmp_path):
    path = tmp_path / "renamed.bin"
    path.write_bytes((ARCHIVES / "sequential.pt").read_bytes())
    with path.open("rb") as stream:
        assert tsarchive.fingerprint(stream) == tsarchive.fingerprint(os.fspath(path))
    assert tsarchive.fingerprint(path) == of(path.read_bytes())


def is_accepted(mutant, before) -> bool:
    """Check that a mutant differs in what it changes alone; False if it is refused as a program."""
    try:
        after = of(packed(mutant.records))
    except tsarchive.SourceError:
        assert mutant.changed & {"code"}, mutant
        return False
    if mutant.base is not None:
        before = of(packed(mutant.base))
    is_model = bool(mutant.changed - {"extra_files"})
    expected = mutant.changed | ({"model"} if is_model else set())
    assert differing(before, after) == expected, (mutant.kind, mutant.where)
    if mutant.tensors is not None:
        names = before.tensors.keys() | after.tensors.keys()
        changed = {n for n in names if before.tensors.get(n) != after.tensors.get(n)}
        assert changed == mutant.tensors, (mutant.kind, mutant.where)
    return True


def original_of(data: bytes) -> Original:
    with tsarchive.open(io.BytesIO(data)) as archive:
        return Original(records_of(data), dict(archive.tensors))


@pytest.mark.parametrize("name", [f"archives/{name}" for name in ARCHIVE_NAMES] + OLD)
def test_each_change_is_seen_where_it_is(name):
    original = original_of((ROOT / "fixtures" / name).read_bytes())
    before = of(packed(original.records))
    tried = [*mutants(original, seed=name, count=examples(12))]
    accepted = [mutant for mutant in tried if is_accepted(mutant, before)]
    assert accepted or not tried


@pytest.mark.whole
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_of_change_is_tried(kind):
    """On a network that has something to change of each kind."""
    if kind == "scale of a quantizer":
        data = (ARCHIVES / "quantized_tensors.pt").read_bytes()
    elif kind == "dtype of tensors":
        data = torch_saved(torch.jit.script(value(torch.ones(2, 3))))
    else:
        data = torch_saved(torch.jit.script(Changeable()))
    mutant = KINDS[kind](original_of(data), random.Random(0))
    assert mutant is not None
    assert is_accepted(mutant, of(packed(records_of(data))))


class Changeable(torch.nn.Module):
    """A network with what mutants change: two classes of one name, numbers, defaults."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(3, 3)
        self.head = torch.nn.Sequential(Halved())
        self.tail = torch.nn.Sequential(Halved(), Halved())
        self.rate = 0.25

    def forward(self, x: torch.Tensor, count: int = 2, flag: bool = False) -> torch.Tensor:
        y = torch.relu(self.body(x)) * self.rate
        z = torch.sub(x, y)
        if flag and count > 1:
            z = torch.sum(torch.tanh(z), [1], True)
        return torch.add(self.head(z), self.tail(y), alpha=3) * 1.5


class Halved(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :1], x[:, 1:]], 1) / 2.0


# Each pair differs for torch, or for a reader, though it is nearly the same.
def value(tensor: torch.Tensor, **attributes) -> torch.nn.Module:
    module = torch.nn.Module()
    module.register_buffer("held", tensor)
    for name, held in attributes.items():
        setattr(module, name, held)
    return torch.jit.script(module)


ONE = torch.ones(2, 2)
PAIRS = {
    "shape": ((ONE, {}), (ONE.reshape(4), {}), {"structure", "weights"}),
    "dtype": ((ONE, {}), (ONE.double(), {}), {"structure", "weights"}),
    "device": ((ONE, {}), (ONE.to("meta"), {}), {"structure", "weights"}),
    "int for float": ((ONE, {"n": 1}), (ONE, {"n": 1.0}), {"structure", "code"}),
    "sign of zero": ((ONE, {"n": 0.0}), (ONE, {"n": -0.0}), {"structure"}),
    "complex": ((ONE, {"n": 1j}), (ONE, {"n": -1j}), {"structure"}),
    "string": ((ONE, {"n": "a"}), (ONE, {"n": "b"}), {"structure"}),
    "order of a dict": ((ONE, {"n": {1: 2, 3: 4}}), (ONE, {"n": {3: 4, 1: 2}}), {"structure"}),
    "list for tuple": ((ONE, {"n": [1, 2]}), (ONE, {"n": (1, 2)}), {"structure", "code"}),
    "name": ((ONE, {"n": 1}), (ONE, {"m": 1}), {"structure", "code"}),
}


@pytest.mark.whole
@pytest.mark.parametrize("pair", PAIRS)
def test_what_differs_a_little_differs(pair):
    one, other, parts = PAIRS[pair]
    modules = [value(tensor, **attributes) for tensor, attributes in (one, other)]
    found = differing(*map(tsarchive.fingerprint, modules))
    assert found == parts | {"model"}


LAYOUTS = {
    "transposed": ONE.t(),
    "expanded": torch.ones(1).expand(2, 2),
    "part of a storage": torch.ones(9)[3:7].view(2, 2),
    "strided": torch.ones(4, 4)[::2, ::2],
}


@pytest.mark.whole
@pytest.mark.parametrize("layout", LAYOUTS)
def test_storages_and_strides_mean_nothing(layout):
    assert tsarchive.fingerprint(value(LAYOUTS[layout])) == tsarchive.fingerprint(value(ONE))


class Holding(torch.nn.Module):
    """Where values of any type may stand, or of several."""

    def __init__(self):
        super().__init__()
        self.anything, self.either = None, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


# What torch.jit takes where annotations are kept as text.
Holding.__annotations__ = {
    "anything": Optional[Any],  # noqa: UP045
    "either": Union[list[int], list[float], dict[str, int], dict[str, float], int],  # noqa: UP007
}

# Attribute, type of an empty container, and the value that it stands in.
HELD = [
    ("anything", "List[int]", "held"),
    ("anything", "List[bool]", "held"),
    ("anything", "List[str]", "held"),
    ("anything", "Dict[str, int]", "held"),
    ("anything", "List[int]", "(held, 1)"),
    ("anything", "Dict[str, int]", "(held, 1)"),
    ("anything", "Dict[str, float]", "(held, 1)"),
    ("either", "List[int]", "held"),
    ("either", "List[float]", "held"),
    ("either", "Dict[str, int]", "held"),
    ("either", "Dict[str, float]", "held"),
]


def test_types_of_empty_containers_count_where_any_may_stand():
    """No item tells them."""
    module = torch.jit.script(Holding())
    for number, (attribute, type_, whole) in enumerate(HELD):
        empty = "{}" if type_.startswith("Dict") else "[]"
        lines = [f"held: {type_} = {empty}", f"self.{attribute} = {whole}", ""]
        module.define("\n  ".join([f"def fill_{number}(self):", *lines]))
    structures = []
    for number in range(len(HELD)):
        module.anything, module.either = None, 0
        getattr(module, f"fill_{number}")()
        found = of(torch_saved(module))
        structures.append(found.structure)
        assert of(torch_saved(torch_loaded(torch_saved(module)))) == found
    assert len({*structures}) == len(HELD), structures


class Swapping(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int):
        a, b = x, x + 1
        for _ in range(n):
            if n > 3:
                a, b = b, a + 1
        return a, b


class SwappingByOtherNames(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int):
        q, a = x, x + 1
        for _ in range(n):
            if n > 3:
                q, a = a, q + 1
        return q, a


def test_names_of_variables_mean_nothing():
    """torch orders the results of loops and conditions by them."""
    one, other = map(
        tsarchive.fingerprint, map(torch.jit.script, (Swapping(), SwappingByOtherNames()))
    )
    # Names of classes count, those of variables do not.
    assert one.structure != other.structure
    renamed = records_of(saved(torch.jit.script(SwappingByOtherNames())))
    back = {
        name.replace("SwappingByOtherNames", "Swapping"): data.replace(
            b"SwappingByOtherNames", b"Swapping"
        )
        for name, data in renamed.items()
    }
    assert of(packed(back)).code == one.code


def test_fingerprints_are_keys():
    data = (ARCHIVES / "sequential.pt").read_bytes()
    assert {of(data): 1}[of(data)] == 1
    assert len({of(data), of(data, weights=False)}) == 2


NO_MODELS = {
    "bytes": (b"PK", "BytesIO"),
    "none": (None, "path"),
    "state dict": ({"weight": ONE}, "torch.save"),
}


@pytest.mark.parametrize("kind", NO_MODELS)
def test_what_is_no_model_is_told(kind):
    given, hint = NO_MODELS[kind]
    with pytest.raises(tsarchive.CallError, match=hint):
        tsarchive.fingerprint(given)


# Bodies of functions of x and n, in which p, q and r are variables.
CARRYING = {
    "first used by one call": """
        p, q = x, x + 1
        for i in range(n):
            print(p - q)
            p = p * 2
            q = q + 3
        return x
    """,
    "first used by a loop inside": """
        p, q = x, x + 1
        for i in range(n):
            for j in range(i):
                print(p - q)
                p = p * 2
                q = q + 3
        return x
    """,
    "used by loops one after the other": """
        p, q, r = x, x + 1, x + 2
        for i in range(n):
            for j in range(i):
                p, q, r = q, r, p * 2
            for j in range(i):
                q, r = r, q - p
        return torch.stack([r, q, p])
    """,
    "chosen inside": """
        p, q, r = x, x + 1, x + 2
        for i in range(n):
            if i > 2:
                p, q = q, r
            elif i > 1:
                q, r = r, q - p
            else:
                p = r - q
        return r - q - p
    """,
    "given back twice": """
        p, q, r = x + 1, x + 2, x + 3
        for i in range(n):
            if i > 2:
                p = q
            else:
                print(p)
                p, r = q + r, r + 1
            q = p
        return p
    """,
    "carried by two loops and given back": """
        p, q = x, x + 1
        while n > 0:
            for j in range(n):
                p, q = q, p
            n -= 1
        return p - q
    """,
}


@pytest.mark.parametrize("body", CARRYING)
def test_names_of_variables_mean_nothing_where_uses_are_at_one_place(body):
    codes = set()
    for names in permutations("aem"):
        renamed = dict(zip("pqr", names, strict=True))
        text = re.sub(r"\b[pqr]\b", lambda match, new=renamed: new[match[0]], CARRYING[body])
        source = "def f(x: Tensor, n: int):" + textwrap.indent(textwrap.dedent(text), "  ")
        codes.add(tsarchive.fingerprint(torch.jit.CompilationUnit(f"{source}\n").f).code)
    assert len(codes) == 1


class Reader(torch.nn.Module):
    @torch.jit.export
    def read(self, count: int) -> int:
        return count


def test_a_module_may_have_a_method_of_files():
    module = torch.jit.script(Reader())
    assert tsarchive.fingerprint(module) == of(saved(module))


def test_without_weights_no_tensor_is_read():
    records = records_of((ARCHIVES / "sequential.pt").read_bytes())
    whole = of(packed(records))
    without = {name: data for name, data in records.items() if not name.startswith("data/")}
    found = of(packed(without), weights=False)
    assert (found.code, found.structure) == (whole.code, whole.structure)
    assert (found.weights, found.model, found.tensors) == ("", "", {})
    with pytest.raises(tsarchive.ArchiveError):
        of(packed(without))


def test_step_is_told_of_each_tensor():
    told: list[str] = []
    found = of((ARCHIVES / "sequential.pt").read_bytes(), step=told.append)
    assert told == [*found.tensors]


def test_tensors_have_the_names_of_the_archive():
    data = (ARCHIVES / "quantized_static_linear.pt").read_bytes()
    with tsarchive.open(io.BytesIO(data)) as archive:
        assert archive.tensors.keys() <= of(data).tensors.keys()


class LikeTheTable(torch.nn.Module):
    """A submodule that is called as the table of constants, with a buffer as one of them."""

    def __init__(self, number: float):
        super().__init__()
        self.CONSTANTS = torch.nn.Module()
        self.CONSTANTS.register_buffer("c0", torch.full((2,), number))

    def forward(self, x):
        return x * self.CONSTANTS.c0 + torch.tensor([1.0, 2.0])


def test_constants_hide_no_tensor_of_their_name():
    one, other = (
        of(torch_saved(torch.jit.trace(LikeTheTable(number), torch.ones(2))))
        for number in (1.0, 2.0)
    )
    assert differing(one, other) == {"weights", "model"}
    assert [*one.tensors] == ["CONSTANTS.c0", "CONSTANTS.c0 (2)"]


def test_elements_that_repeat_without_end_are_refused():
    """A few bytes that stand for a terabyte, which would be read for hours."""
    stream = io.BytesIO()
    torch.save({"held": torch.ones(1).expand(1 << 20, 1 << 18)}, stream)
    with pytest.raises(tsarchive.FormatError, match="again and again"):
        of(stream.getvalue())


def doubled(value, times: int):
    """A list of twice the list of twice ... the value."""
    for _ in range(times):
        value = [value, value]
    return value


SHARED = {
    "values": (doubled(1, 16), "too many values"),
    "letters": (doubled("text" * 1000, 12), "too many letters"),
}


@pytest.mark.parametrize("what", SHARED)
def test_values_that_are_shared_without_end_are_refused(what):
    """A few bytes that stand for gigabytes; what is read is in proportion to the file."""
    value, message = SHARED[what]
    stream = io.BytesIO()
    torch.save(value, stream)
    with pytest.raises(tsarchive.PickleError, match=message):
        of(stream.getvalue())


def test_values_that_many_modules_share_are_read():
    stream = io.BytesIO()
    words = {f"word {number}": number for number in range(1000)}
    torch.save([words] * 30, stream)
    assert of(stream.getvalue()).structure


def test_code_that_cannot_be_read_has_no_fingerprint():
    records = records_of((ARCHIVES / "sequential.pt").read_bytes())
    broken = {
        name: data.replace(b"return ", b"return lambda: ") if name.endswith(".py") else data
        for name, data in records.items()
    }
    with pytest.raises(tsarchive.SourceError):
        of(packed(broken))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no madvise")
def test_a_mapped_file_is_let_go_of(tmp_path, monkeypatch):
    """More than is held at once, so that some of it is read after it was let go of."""
    monkeypatch.setattr("tsarchive.formats.reading._HELD", 1 << 16)
    monkeypatch.setattr("tsarchive.formats.strides._LONGEST", 1 << 14)
    module = value(torch.arange(1 << 18, dtype=torch.int32))
    path = tmp_path / "large.pt"
    tsarchive.save(module, path)
    assert tsarchive.fingerprint(path) == of(path.read_bytes())


def overwritten(path) -> None:
    with path.open("r+b") as stream:
        stream.seek(-200_000, os.SEEK_END)
        stream.write(b"other")


def cut(path) -> None:
    os.truncate(path, 4096)


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be written to")
@pytest.mark.parametrize("change", [overwritten, cut])
def test_a_file_that_changes_meanwhile_is_refused(change, tmp_path, monkeypatch):
    """What is read of it afterwards would be another model, or end the process."""
    monkeypatch.setattr("tsarchive.formats.reading._HELD", 1 << 14)
    monkeypatch.setattr("tsarchive.formats.strides._LONGEST", 1 << 14)
    path = tmp_path / "changing.pt"
    tsarchive.save(value(torch.arange(1 << 16)), path)

    def changed(source) -> None:
        change(path)
        os.utime(path, ns=(0, 0))  # the clock of files may not have ticked

    monkeypatch.setattr("tsarchive.container.source.Source.let_go", changed)
    with pytest.raises(tsarchive.FormatError, match=r"written to|bytes when it was opened"):
        tsarchive.fingerprint(path)


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be written to")
def test_a_file_that_changes_at_last_is_refused(tmp_path):
    path = tmp_path / "changing.pt"
    tsarchive.save(value(ONE), path)
    with pytest.raises(tsarchive.FormatError, match="written to"):
        tsarchive.fingerprint(path, step=lambda name: os.utime(path, ns=(0, 0)))
