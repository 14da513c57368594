"""Programs of torch.export beside the repository: which run, their calls, and torch's module."""

from __future__ import annotations

import json
import logging
import sys
import warnings
import zipfile
from typing import NamedTuple

import torch
import torch.utils._pytree as pytree

from tests.support.archives import CORPUS
from tsarchive.errors import (
    UnknownClassError,
    UnknownOperatorError,
    UnsupportedError,
)

GENERATED = CORPUS / "generated"


class P(NamedTuple):
    a: object
    b: object


if "corpus.P" not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
    pytree._register_namedtuple(P, serialized_type_name="corpus.P")


class Fields(NamedTuple):
    first: object
    second: object


FILES = sorted(GENERATED.glob("pt2_*.pt2")) + sorted((CORPUS / "pt2").glob("*.pt2"))


# Files that this process cannot load or run, by what they say; all others run.
REFUSED_AT_LOAD = {
    "pt2_subclass": (UnsupportedError, "data/weights/weight_0"),
    "pt2_torchbind": (UnknownClassError, "corpustb.Scaler is not registered"),
    "pytorch-executorch__preprocess_7a851d0": (UnsupportedError, "AOTInductor"),
    "pytorch-executorch__preprocess_f59e50c": (UnsupportedError, "AOTInductor"),
}


REFUSED_WHEN_CALLED = {
    "pt2_customop": (UnknownOperatorError, "corpus::scale_add is not registered"),
    "pt2_opaque": (UnknownOperatorError, "corpusop::addcfg is not registered"),
}


# torch.export.load does not load these, or its module cannot be called.
NOT_BY_TORCH = {"pt2_edge", "pt2_joint"}


def is_none(value):
    return value is None


def leaves(value):
    return pytree.tree_leaves(value, is_leaf=is_none)


def in_spec(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        wanted = next(n for n in names if "/models/" in n or n.endswith("exported_program.json"))
        program = json.loads(archive.read(wanted))
    return program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"]


def cases(path):
    """Arguments and expected leaves, which stand beside the file without their structure."""
    beside = path.with_suffix(".io.pt")
    if not beside.exists():
        return
    specification = pytree.treespec_loads(in_spec(path))
    for case in torch.load(beside, weights_only=False).get("model", ()):
        flat = leaves((case["args"], case["kwargs"]))
        args, kwargs = pytree.tree_unflatten(flat, specification)
        yield args, kwargs, case["expected"]


def by_torch(path):
    logging.disable(logging.CRITICAL)
    # Sample inputs, which torch unpickles, name a class of the script that exported them.
    sys.modules["__main__"].P = P
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(path).module()
    finally:
        del sys.modules["__main__"].P
        logging.disable(logging.NOTSET)


RUNNING = [
    path
    for path in FILES
    if path.stem not in REFUSED_AT_LOAD and path.stem not in REFUSED_WHEN_CALLED
]
