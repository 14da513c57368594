"""The shipped schemas: each torch has those that it registers, in its order."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest

from fixtures.schemas import schemas_of_each, schemas_text
from tests.support.archives import ROOT, TORCH
from tests.support.command_line import process
from tests.support.fresh_registry import SCHEMAS_OF_TORCH
from tsarchive.ir.classes import ClassType
from tsarchive.operators.overloads import methods_of, overloads_of
from tsarchive.operators.registry import (
    entries_of,
    listed_versions,
    operator_names,
    schema_texts,
    tried_versions,
    versions_of,
)
from tsarchive.run.operators import native_class, operator_schemas

HERE = ".".join(map(str, TORCH))
LINES = (ROOT / "tsarchive" / "operators" / "schemas.txt").read_text("ascii").splitlines()
NAMES = tuple(operator_names())
TRIED = LINES[1].split()[2:]
CLASS = "__torch__.torch.classes.quantized.LinearPackedParamsBase"


def owner(text):
    return text.partition("(")[0].partition(".")[0]


def registered():
    """The schemas of this torch by name. Some operators are numbered by what a machine has."""
    by_name = {name: list(group) for name, group in groupby(SCHEMAS_OF_TORCH, owner)}
    return {name: texts for name, texts in by_name.items() if not name.startswith("_native::")}


@pytest.mark.skipif(HERE not in listed_versions(), reason="schemas of this torch are not listed")
def test_the_installed_torch_registers_what_is_listed():
    for name, texts in registered().items():
        assert schema_texts(name, HERE) == tuple(dict.fromkeys(texts)), name


@pytest.mark.skipif(HERE not in listed_versions(), reason="schemas of this torch are not listed")
def test_schemas_are_read_as_those_of_torch_are():
    for name in registered():
        listed, here = overloads_of(name, HERE), operator_schemas(name)
        assert listed == here or "classes" in str(listed), name


def test_what_is_tried_is_listed():
    assert set(tried_versions()) <= set(listed_versions())
    assert (listed_versions()[0], tried_versions()[0]) == ("1.4", "2.6")


def test_lines_stand_in_the_order_of_names():
    owners = [owner(line) for line in LINES[2:]]
    assert all(one <= other for one, other in pairwise(owners))
    assert list(NAMES) == sorted(set(NAMES))


def test_every_schema_of_every_version_is_read():
    for name in NAMES:
        entries = entries_of(name)
        assert len({(e.text, v) for e in entries for v in e.versions}) == sum(
            len(e.versions) for e in entries
        )
        for version in versions_of(name):
            assert all(schema.name == name for schema in overloads_of(name, version))


def test_every_method_of_every_version_is_read():
    heads = (line.partition("(")[0] for line in LINES if line.startswith("__torch__."))
    for name in {head.rpartition(".")[0] for head in heads}:
        counts = [len(methods_of(name, version)) for version in listed_versions()]
        assert max(counts) > 0, name


@pytest.mark.parametrize(
    ("name", "version", "count"),
    [
        ("aten::relu", "1.4", 1),
        ("aten::relu", None, 2),
        ("aten::rel", None, 0),
        ("aten::relu.", None, 0),
        ("", None, 0),
        ("__torch__", None, 0),
        (CLASS, None, 0),
        ("zzz::zzz", None, 0),
        ("aten::cholesky", "2.15", 0),
        ("aten::cholesky", None, 2),
    ],
)
def test_overloads_are_found_by_name(name, version, count):
    assert len(overloads_of(name, version)) == count


def test_versions_of_an_operator():
    assert versions_of("aten::relu") == listed_versions()
    assert versions_of("aten::cholesky")[-1] == "2.13"
    assert versions_of("aten::nobody") == ()


@pytest.mark.skipif(HERE not in listed_versions(), reason="schemas of this torch are not listed")
def test_methods_of_classes_are_those_of_torch():
    here = native_class(CLASS).methods
    listed = methods_of(CLASS, HERE)
    assert listed.keys() == here.keys()
    for name, schema in listed.items():
        # torch gives what a method takes besides the object no names that stay.
        assert [a.type for a in schema.returns] == [a.type for a in here[name].schema.returns]
        assert isinstance(schema.arguments[0].type, ClassType)
    assert methods_of("__torch__.torch.classes.nobody.Knows") == {}


def test_asking_imports_neither_torch_nor_what_reads_schemas():
    code = (
        "import sys; from tsarchive.operators.registry import versions_with;"
        "assert versions_with('aten::add') == 'torch 2.6 to 2.15';"
        "assert not {'torch', 'tsarchive.ir.schema'} & sys.modules.keys()"
    )
    assert process("-c", code, cwd=ROOT).returncode == 0


def test_lists_of_schemas_are_written_as_they_were_read():
    text = "\n".join(LINES) + "\n"
    assert schemas_text(schemas_of_each(text), TRIED) == text


def test_versions_that_order_overloads_otherwise_keep_their_order():
    a, b, c = (f"x::f.{letter}(Tensor {letter}) -> Tensor" for letter in "abc")
    listed = {"1.4.0": [a, b, c], "1.5.1": [b, a], "2.0.0": [c, a, b]}
    back = schemas_of_each(schemas_text(listed, TRIED))
    assert back == listed
