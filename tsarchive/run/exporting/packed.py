"""Objects of C++ that hold packed weights, as modules whose tensors a tracer follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from tsarchive.run.operators import without_modes

from .affine import Affine, Form, affine_of, marked

_CLASSES: Final = "__torch__.torch.classes."
_TABLES: Final = ("_parameters", "_buffers", "_modules")


class PackedWeights(nn.Module):
    """Weights that were packed: a matrix, the kernel of a convolution, or rows of an embedding.

    ``numbers`` are those of a convolution, by name.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, form: Form, weight: Tensor, bias: Tensor | None, **numbers: Any) -> None:
        super().__init__()
        self.numbers = numbers
        self._affine: Affine | None = None
        self._add("bias", bias)
        if not weight.is_quantized:
            self._add("weight", weight)
            return
        affine = Affine.of(weight)
        self._add("weight", form.stored(weight))
        if affine.axis is not None:
            self._add("weight_scale", affine.scale)
            self._add("weight_zero_point", affine.zero_point)
        self._affine = affine

    def _add(self, name: str, tensor: Tensor | None) -> None:
        self.register_buffer(name, None if tensor is None else tensor.detach())

    def marked_weight(self) -> Tensor:
        """The weight, marked where it stands for a quantized one."""
        affine = self._affine
        if affine is None:
            return self.weight
        if affine.axis is not None:
            scales: Any = self.weight_scale
            affine = Affine(affine.dtype, scales, self.weight_zero_point, affine.axis)
        return marked(self.weight, affine)


class CellParameters(nn.Module):
    """The weights of one layer and direction of a recurrent network."""

    def __init__(self, inputs: PackedWeights, hidden: PackedWeights, *, is_reduced: bool) -> None:
        super().__init__()
        self.inputs, self.hidden, self.is_reduced = inputs, hidden, is_reduced


def unpacked(value: torch.ScriptObject, form: Form) -> nn.Module | None:
    """The module that stands for an object with packed weights; None for other objects."""
    name = value._type().annotation_str.removeprefix(_CLASSES)
    with without_modes(), torch.no_grad():
        if name == "quantized.LinearPackedParamsBase":
            return PackedWeights(form, *_called(value, "__getstate__"))
        if name in ("quantized.Conv2dPackedParamsBase", "quantized.Conv3dPackedParamsBase"):
            return _convolution(value, form)
        if name == "quantized.EmbeddingPackedParamsBase":
            rows: Any = torch.ops.quantized.embedding_bag_unpack(value)
            return PackedWeights(form, rows.dequantize(), None)
        if name == "rnn.CellParamsBase":
            return _cell(value, form)
    return None


def _called(value: Any, method: str) -> Any:
    return value._get_method(method)()


_NUMBERS: Final = ("stride", "padding", "output_padding", "dilation", "groups", "transpose")


def _convolution(value: Any, form: Form) -> PackedWeights:
    numbers = {name: _called(value, name) for name in _NUMBERS}
    return PackedWeights(form, *_called(value, "unpack"), **numbers)


def _cell(value: Any, form: Form) -> CellParameters | None:
    kind, _biases, _doubles, flags, packed = _called(value, "__getstate__")
    parts = [PackedWeights(form, *_called(one, "__getstate__")) for one in packed]
    is_known = kind in ("quantized_dynamic", "quantized_fp16")
    return CellParameters(*parts, is_reduced=bool(sum(flags))) if is_known else None


class Stand:
    """What stands for the quantized parts of a module while it is traced.

    ``results`` are the affines of what the last call gave, None for other values.
    """

    def __init__(self, module: nn.Module, form: Form) -> None:
        self.results: list[Affine | None] = []
        self._form = form
        self._undo: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._marks: list[tuple[dict[str, Any], str, Affine]] = []
        for part in list(module.modules()):
            self._replace_in(part)

    @property
    def is_needed(self) -> bool:
        return bool(self._undo)

    def mark(self) -> None:
        """Mark the buffers that stand for quantized ones, which a tracer has exchanged."""
        for table, name, affine in self._marks:
            marked(table[name], affine)

    def undo(self) -> None:
        """Put everything back."""
        for table, before in reversed(self._undo):
            table.clear()
            table.update(before)

    def _replace_in(self, part: nn.Module) -> None:
        for name in _TABLES[:2]:
            self._replace_tensors(part.__dict__[name])
        plain = vars(part)
        found = {key: self._replaced(value) for key, value in plain.items() if key not in _TABLES}
        changed = {key: value for key, value in found.items() if value is not plain[key]}
        if not changed:
            return
        for table in (plain, part._modules):
            self._undo.append((table, dict(table)))
        plain.update(changed)
        for key, value in changed.items():
            for made in tree_leaves(value):
                if isinstance(made, nn.Module):
                    part._modules[_free_name(key, part._modules)] = made

    def _replace_tensors(self, table: dict[str, Any]) -> None:
        quantized = {key: t for key, t in table.items() if t is not None and t.is_quantized}
        if not quantized:
            return
        self._undo.append((table, dict(table)))
        for key, tensor in quantized.items():
            stored = self._form.stored(tensor.detach())
            is_parameter = isinstance(tensor, nn.Parameter)
            table[key] = nn.Parameter(stored, requires_grad=False) if is_parameter else stored
            self._marks.append((table, key, Affine.of(tensor)))

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, torch.ScriptObject):
            made = unpacked(value, self._form)
            return value if made is None else made
        if isinstance(value, Tensor) and value.is_quantized:
            return marked(self._form.stored(value), Affine.of(value))
        if type(value) in (list, tuple):
            items = [self._replaced(item) for item in value]
            is_same = all(one is two for one, two in zip(items, value, strict=True))
            return value if is_same else type(value)(items)
        return value


def _free_name(key: str, taken: dict[str, Any]) -> str:
    """A name for a submodule, which has no dots."""
    name = key.replace(".", "_").replace(":", "_")
    while name in taken:
        name += "_"
    return name


def standing_for(arguments: Any, form: Form) -> Any:
    """The arguments of a call, with marked tensors for quantized ones."""

    def made(tensor: Tensor) -> Tensor:
        return marked(form.stored(tensor), Affine.of(tensor)) if tensor.is_quantized else tensor

    return tree_map_only(Tensor, made, arguments)


def unmarked(arguments: Any) -> Any:
    """Those arguments as plain tensors, which archives can hold."""

    def made(tensor: Tensor) -> Tensor:
        return tensor if affine_of(tensor) is None else tensor.detach()

    return tree_map_only(Tensor, made, arguments)


@contextmanager
def standing_in(module: nn.Module, form: Form, arguments: Any) -> Iterator[Stand]:
    """Let plain tensors stand for the quantized parts of a module.

    ``arguments`` are those of the call that is traced, positional and by name. Tracers exchange
    tensors, so marks are set again when the module is called.
    """
    affines = [affine_of(leaf) for leaf in tree_leaves(arguments)]
    stand = Stand(module, form)

    def mark(_: nn.Module, *given: Any) -> None:
        stand.mark()
        for leaf, affine in zip(tree_leaves(given), affines, strict=True):
            if affine is not None:
                marked(leaf, affine)

    def note(_: nn.Module, _given: Any, result: Any) -> None:
        stand.results = [affine_of(leaf) for leaf in tree_leaves(result)]

    hooks = [module.register_forward_hook(note)]
    if stand.is_needed or any(affines):
        hooks.append(module.register_forward_pre_hook(mark, with_kwargs=True))
    try:
        yield stand
    finally:
        for hook in hooks:
            hook.remove()
        stand.undo()
