"""Fingerprints: which model a file or module is, whatever wrote it and where."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tsarchive.analyses.encoding import Plain, encode
from tsarchive.formats.contents import Contents, TensorContent

_VERSION: Final = "tsf1"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    code: str
    structure: str
    weights: str
    extra_files: str
    model: str
    tensors: Mapping[str, str]


def _digest(domain: str, value: Plain) -> str:
    return hashlib.sha256(encode([f"{_VERSION}:{domain}", value])).hexdigest()


def fingerprint_of(contents: Contents) -> Fingerprint:
    code = _digest("code", contents.code)
    structure = _digest("structure", contents.structure)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tensors = dict(
            zip(contents.tensors, pool.map(_tensor, contents.tensors.values()), strict=True)
        )
    weights = _digest("weights", tensors)
    files = {name: hashlib.sha256(data).hexdigest() for name, data in contents.extra_files.items()}
    extra = _digest("extra files", files)
    return Fingerprint(
        code, structure, weights, extra, _digest("model", [code, structure, weights]), tensors
    )


def _tensor(tensor: TensorContent) -> str:
    digest = hashlib.sha256(encode([f"{_VERSION}:tensor", tensor.meaning]))
    for piece in tensor.elements.pieces():
        digest.update(piece)
    return digest.hexdigest()
