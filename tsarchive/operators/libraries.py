"""Advice about operators and classes that this process does not have, by their namespace."""

from __future__ import annotations

import re
from typing import Final

from tsarchive.errors import UnknownOperatorError
from tsarchive.ir.schema import FunctionSchema

from .registry import is_of_another_build, versions_with, with_untried_torch
from .removed import last_torch_with

_NAMED_ALIKE: Final = (
    "torch_cluster", "torch_scatter", "torch_sparse", "torch_spline_conv", "torchaudio", "torchrec",
    "torchtext", "torchvision",
)  # fmt: skip
# Namespaces of operators and classes, and the import that registers them.
_IMPORTS: Final = {
    "deepmd": "deepmd.pt",
    "fbgemm": "fbgemm_gpu",
    "image": "torchvision.io",
    "metatensor": "metatensor.torch",
    "pyg": "pyg_lib",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
    **{name: name for name in _NAMED_ALIKE},
}
_FOR_PHONES: Final = (
    "The archive was prepared for phones with such a backend: load what it was made from, prepare "
    "that with backend='CPU', or use a torch that is built with this backend"
)
_BACKENDS: Final = (
    "A part of the model was compiled for a backend: load the library of that backend with "
    "torch.ops.load_library, or load what the archive was made from"
)
# Namespaces that no import registers.
_ADVICE: Final = {
    **dict.fromkeys(("__backends__", "backendutils"), _BACKENDS),
    **dict.fromkeys(("metal", "metal_prepack", "prepacked"), _FOR_PHONES),
    **dict.fromkeys(("vulkan", "vulkan_prepack", "xnnpack"), _FOR_PHONES),
}
_OWN: Final = frozenset(
    {
        "_quantized", "aten", "c10d", "mkldnn", "mkldnn_prepacked", "onednn", "prim", "profiler",
        "quantization", "quantized", "rnn", "sparse",
    }
)  # fmt: skip
_OF_PYTHON: Final = frozenset({"quantized_decomposed", "torch_nn"})
_NAMESPACE = re.compile(r"(?:__torch__\.torch\.classes\.)?(\w+)(?:::|\.)")


def is_of_torch(name: str) -> bool:
    """Return whether operators and classes of a namespace come with torch, in whatever release."""
    return _namespace(name) in _OWN


def is_registered_by_python(name: str) -> bool:
    """Return whether Python code registers the operators of a namespace, which C++ lacks."""
    return _namespace(name) in _OF_PYTHON


def _namespace(name: str) -> str:
    match = _NAMESPACE.match(name)
    return match[1] if match else name


def what_registers(name: str) -> str:
    """Return advice on how to register an operator or a class, such as ``torchvision::nms``."""
    namespace = _namespace(name)
    versions = versions_with(name)
    if is_of_another_build(name):
        return "Another build of torch has it, such as one for GPUs: load the archive with that one"
    if versions is not None:
        return f"{versions} has it: load the archive with such a torch"
    if namespace in _ADVICE:
        return _ADVICE[namespace]
    if namespace in _OWN:
        return with_untried_torch(
            "Another version or build of torch wrote the archive: load it with that one"
        )
    if namespace in _IMPORTS:
        return f"It comes with a library: run 'import {_IMPORTS[namespace]}' first"
    return (
        f"It comes with a library that defines the namespace {namespace!r}: import that library "
        "first, or load its file with torch.ops.load_library"
    )


def last_with(schema: FunctionSchema) -> str:
    """Return advice on an overload that torch removed: the last version that has it."""
    return f"torch {last_torch_with(schema)} is the last that runs it"


def unregistered(kind: str) -> UnknownOperatorError:
    """Return the error for an operator that this process does not have."""
    message = f"the operator {kind} is not registered in this process"
    error = UnknownOperatorError.of(kind, message, hint=what_registers(kind))
    error.is_unregistered = True
    return error
