"""The grammar of operator schemas, against every schema that torch has."""

from __future__ import annotations

import pytest
import torch

from tsarchive.errors import FormatError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.schema import (
    FunctionSchema,
    _of_known_parts,
    _parsed_argument,
    _Parser,
    _usual_argument,
    parse_schema,
    parse_schema_with,
)
from tsarchive.ir.types import annotation


def parsed(schema) -> FunctionSchema:
    return parse_schema_with(str(schema), lambda name: ClassType(name, is_native=True))


def facts(schema: FunctionSchema) -> list[tuple]:
    return [
        (a.name, annotation(a.type), a.kwarg_only, a.repeat, a.is_out, a.is_write, a.has_default)
        for a in schema.arguments
    ]


def test_every_schema_of_torch():
    for schema in torch._C._jit_get_all_schemas():
        ours = parsed(schema)
        assert (ours.name, ours.overload) == (schema.name, schema.overload_name)
        assert facts(ours) == [
            (
                a.name, a.type.annotation_str, a.kwarg_only, a.N, a.is_out, a.is_write,
                a.has_default_value(),
            )
            for a in schema.arguments
        ], str(schema)  # fmt: skip
        assert [annotation(r.type) for r in ours.returns] == [
            r.type.annotation_str for r in schema.returns
        ]


def same(ours, theirs) -> bool:
    both_nan = ours != ours and theirs != theirs
    return both_nan or (type(ours) is type(theirs) and ours == theirs)


def test_every_default_of_torch():
    for schema in torch._C._jit_get_all_schemas():
        for ours, theirs in zip(parsed(schema).arguments, schema.arguments, strict=True):
            if theirs.has_default_value():
                assert same(ours.default, theirs.default_value), str(schema)


@pytest.mark.parametrize(
    "text",
    ["", "f(", "f(Tensor x) ->", "f(Tensor x -> Tensor", "f(Tensor x=) -> Tensor",
     "f(Odd x) -> int", "f(Tensor x) -> Tensor Tensor Tensor", "f(int x=@) -> int"],
)  # fmt: skip
def test_text_outside_the_grammar(text):
    with pytest.raises(FormatError, match="schema"):
        parse_schema(text)


def test_schemas_put_together_from_known_arguments_are_those_of_the_grammar():
    classes: dict[str, ClassType] = {}

    def resolve(name: str) -> ClassType:
        return classes.setdefault(name, ClassType(name, is_native=True))

    texts = [str(schema) for schema in torch._C._jit_get_all_schemas()]
    short = [(text, _of_known_parts(text)) for text in texts]
    assert sum(found is not None for _, found in short) > len(texts) / 2
    for text, found in short:
        assert found is None or repr(found) == repr(_Parser(text, resolve).schema()), text


_BASES = ("Tensor", "int", "ScalarType", "t", "tVal", "Dict", "Dict(str, t)", "Dict(str, tVal)",
          "List(int, str)", "Future(t)", "Foo", "number")  # fmt: skip
_LONG_WAY = ("tVal", "Dict", "Dict(str, tVal)", "List(int, str)", "Future(t)", "Foo")


@pytest.mark.parametrize("base", _BASES)
def test_an_argument_is_what_the_parser_reads(base):
    """The short way refuses, or gives the same, whether the text is right or not."""
    marks = (
        "", "?", "[]", "?[]", "[]?", "[3]", "[3]?", "[0]", "(a)", "(a!)", "(a!)[]", "[](a!)",
        "(*)", "[](*)", "(a -> *)", "(a! -> *)", "??", "[][]",
    )  # fmt: skip
    defaults = (
        "", "=None", "=1", "=-1", "=01", "=True", "=Mean", "=long", "=foo", "=1.0", "=inf",
        "=0.", "=-0.5", "=1.0000000000000001e-05", "=1e5", "=[]", "=[1, -1]", "=[1,1]", "=[01]",
        "=[1", "=[-]", '="none"', "=''", "=9999999999999999999",
    )  # fmt: skip
    names = (" x", " _x", " self")
    texts = [f"{base}{m}{n}{d}" for m in marks for n in names for d in defaults]
    read = [text for text in (*texts, *(base + m for m in marks)) if _usual_argument(text, True)]
    assert [repr(_usual_argument(text, True)) for text in read] == [
        repr(_parsed_argument(text, True)) for text in read
    ]
    assert bool(read) == (base not in _LONG_WAY)


@pytest.mark.parametrize(
    "argument",
    [
        "complex c=2j",
        "complex c=0j",
        "complex c=1.5",
        "complex? c=3j",
        "complex[] c=[1j, 2j]",
        "complex[2] c=1e-5j",
        "complex[2] c=[1j, 1e30j]",
    ],
)
def test_a_complex_default_is_what_torch_shows_of_it(argument):
    """torch writes ``2j`` as ``0.+2.j``, and reads no other form itself."""
    library = torch.library.Library("complex_defaults", "DEF")
    library.define(f"op(Tensor x, {argument}) -> Tensor")
    (schema,) = torch._C._jit_get_schemas_for_operator("complex_defaults::op")
    library._destroy()
    assert parsed(schema).arguments[1].default == schema.arguments[1].default_value
