"""Tree specifications: what torch dumps is read, what breaks a rule is refused."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given, settings

from tests.support.suite import examples
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.pt2.pytrees import LEAF, MAX_DEPTH, Kind, Tree, read_tree
from tsarchive.formats.pt2.schema import NamedTupleDef


class Pair(NamedTuple):
    one: object
    other: object


if "tests.Pair" not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
    pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
NAMED = {"tests.Pair": NamedTupleDef(["one", "other"])}

keys = st.text("abc", min_size=1, max_size=2) | st.integers(-3, 3)


def nested(inner):
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.dictionaries(keys, inner, max_size=3).map(lambda items: defaultdict(list, items)),
        st.lists(inner, max_size=3).map(lambda items: deque(items, maxlen=5)),
        st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
    )


values = st.recursive(st.none() | st.integers(), nested, max_leaves=12)

KINDS = {
    list: Kind.LIST, tuple: Kind.TUPLE, dict: Kind.DICT, OrderedDict: Kind.ORDERED_DICT,
    defaultdict: Kind.DEFAULT_DICT, deque: Kind.DEQUE, Pair: Kind.NAMED_TUPLE,
}  # fmt: skip


def assert_describes(tree, value):
    kind = KINDS.get(type(value))
    if kind is None:
        assert tree is LEAF
        return
    assert tree.kind is kind
    children = list(value)
    if isinstance(value, dict):
        assert tree.keys == tuple(value)
        children = list(value.values())
    assert len(tree.children) == len(children)
    for part, child in zip(tree.children, children, strict=True):
        assert_describes(part, child)


@settings(max_examples=examples(150))
@given(values)
def test_what_torch_dumps_is_read(value):
    specification = pytree.tree_structure(value)
    tree = read_tree(pytree.treespec_dumps(specification), NAMED)
    assert_describes(tree, value)
    assert tree.leaves == specification.num_leaves


@settings(max_examples=examples(150))
@given(values)
def test_places_are_those_of_torch(value):
    def paths(tree, path):
        if tree.kind is Kind.LEAF:
            yield path
        for step, child in tree.places():
            yield from paths(child, path + step)

    tree = read_tree(pytree.treespec_dumps(pytree.tree_structure(value)), NAMED)
    expected = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(value)]
    assert list(paths(tree, "")) == expected


def test_contexts():
    text = pytree.treespec_dumps(pytree.tree_structure((deque([1], maxlen=3), defaultdict(int))))
    tree = read_tree(text)
    assert tree.children[0].context == 3
    assert tree.children[1].context == "int"


def test_what_torch_takes_for_its_base_is_of_that_kind():
    text = pytree.treespec_dumps(pytree.tree_structure([torch.Size([1, 2])]))
    assert read_tree(text).children[0] == Tree(Kind.TUPLE, (LEAF, LEAF))


def leaf():
    return {"type": None, "context": None, "children_spec": []}


def spec(type_, context, *children):
    return json.dumps([1, {"type": type_, "context": context, "children_spec": list(children)}])


def test_registered_objects_keep_their_name_and_context():
    tree = read_tree(spec("models.Cache", "[1]", leaf()))
    assert tree == Tree(Kind.REGISTERED, (LEAF,), name="models.Cache", context="[1]")


def test_named_tuples_of_older_versions_tell_their_fields():
    context = json.dumps({"class_name": "Pair", "fields": ["a", "b"]})
    tree = read_tree(spec("collections.namedtuple", context, leaf(), leaf()))
    assert (tree.name, tree.fields) == ("Pair", ("a", "b"))


def deep():
    node = leaf()
    for _ in range(MAX_DEPTH + 1):
        node = {"type": "builtins.list", "context": "null", "children_spec": [node]}
    return json.dumps([1, node])


FACTORY = {"default_factory_module": "os", "default_factory_name": "system", "dict_context": []}
MALFORMED = {
    "no JSON": "[1, {",
    "no list": "{}",
    "no node": "[1, 2]",
    "truth as protocol": "[true, 1]",
    "leaf with children": json.dumps([1, {**leaf(), "children_spec": [leaf()]}]),
    "no children": '[1, {"type": "builtins.list", "context": "null"}]',
    "type is a number": spec(7, "null"),
    "too few keys": spec("builtins.dict", '["a"]', leaf(), leaf()),
    "keys are no list": spec("builtins.dict", '{"a": 1}', leaf()),
    "key twice": spec("builtins.dict", '["a", "a"]', leaf(), leaf()),
    "context is no JSON": spec("builtins.dict", "[", leaf()),
    "context is missing": spec("builtins.dict", None, leaf()),
    "short deque": spec("collections.deque", "1", leaf(), leaf()),
    "deque of text": spec("collections.deque", '"1"', leaf()),
    "named tuple without name": spec("collections.namedtuple", None, leaf()),
    "named tuple of other length": spec("collections.namedtuple", "tests.Pair", leaf()),
    "field twice": spec(
        "collections.namedtuple", '{"class_name": "P", "fields": ["a", "a"]}', leaf(), leaf()
    ),
    "field is code": spec(
        "collections.namedtuple", '{"class_name": "P", "fields": ["a b"]}', leaf()
    ),
    "default without keys": spec("collections.defaultdict", {"x": 1}),
    "too deep": deep(),
    "deep brackets": "[" * 5000,
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_texts_are_refused(text):
    with pytest.raises(FormatError):
        read_tree(text, NAMED)


UNSUPPORTED = {
    "protocol": "[2, {}]",
    "enum as key": spec(
        "builtins.dict", '[{"__enum__": true, "fqn": "os:path", "name": "x"}]', leaf()
    ),
    "list as key": spec("builtins.dict", "[[1]]", leaf()),
    "factory that would be imported": spec("collections.defaultdict", FACTORY),
}


@pytest.mark.parametrize("text", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_torch_would_import_is_refused(text):
    with pytest.raises(UnsupportedError):
        read_tree(text)
