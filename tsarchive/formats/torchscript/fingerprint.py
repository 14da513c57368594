"""What a TorchScript archive is, as plain data: code, structure, and the bytes of tensors."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from tsarchive.analyses.encoding import Plain, ProgramEncoding, encode
from tsarchive.auditing.programs import program_of
from tsarchive.container import Container
from tsarchive.errors import PickleError
from tsarchive.ir.classes import ClassType, method_schema
from tsarchive.ir.types import DictType, ListType, OptionalType, TupleType, Type
from tsarchive.pickler import Global, Memoised, Object, Reduce, loads
from tsarchive.pickler.values import STORAGE_TYPES

from .stored_tensors import (
    DenseTensor,
    PerTensor,
    QuantizedTensor,
    SparseTensor,
    StoredTensors,
    StridedView,
    Wrapped,
    is_tensor,
    plain_tensor,
)

_TAG = "torch.jit._pickle"


class Elements:
    """Digests the elements of tensors, in the order of their indices."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def digest(self, folder: str, view: StridedView) -> bytes:
        digest = hashlib.sha256()
        kind = STORAGE_TYPES[view.storage.kind]
        if view.storage.is_meta or not view.elements:
            return digest.digest()
        data = self._container.view(f"{folder}/{view.storage.key}")
        for part in rows(data, view, kind.itemsize):
            digest.update(part)
        return digest.digest()


def rows(data: memoryview, view: StridedView, itemsize: int) -> Iterator[Any]:
    """Yield the bytes of the elements of a view in the order of their indices."""
    size, stride = list(view.size), list(view.stride)
    run = 1
    while size and (size[-1] == 1 or stride[-1] == run):
        run *= size.pop()
        stride.pop()
    width = run * itemsize
    step = stride.pop() * itemsize if size else width
    count = size.pop() if size else 1

    def each(place: int, dims: list[int], steps: list[int]) -> Iterator[int]:
        if not dims:
            yield place
            return
        for index in range(dims[0]):
            yield from each(place + index * steps[0] * itemsize, dims[1:], steps[1:])

    for start in each(view.offset * itemsize, size, stride):
        if count == 1:
            yield data[start : start + width]
        else:
            yield b"".join(
                [data[at : at + width] for at in range(start, start + count * step, step)]
            ) if step else bytes(data[start : start + width]) * count


class ArchiveData:
    """Plain data of the objects and constants of an archive."""

    def __init__(self, container: Container) -> None:
        self.container = container
        code = {
            name: container.read(name)
            for name in container.records
            if name.startswith("code/") and name.endswith(".py")
        }
        self.program = program_of(code, container)
        self.encoding = ProgramEncoding(self.constant)
        self.elements = Elements(container)
        self.tensors: dict[str, str] = {}
        self.constants: dict[int, str] = {}
        self._stored = {r: StoredTensors(f"{r}.pkl") for r in ("data", "constants")}
        self._refs: dict[int, int] = {}
        self._record = "data"

    @cached_property
    def structure(self) -> Plain:
        root = loads(self.container.read("data.pkl"), record="data.pkl")
        return self.value(root, "")

    @cached_property
    def code(self) -> Plain:
        _ = self.structure
        self._record = "constants"
        return [[name, data] for name, data in self.encoding.definitions()]

    def constant(self, value: Any) -> Plain:
        name = self.constants.get(id(value))
        if name is None:
            name = self.constants[id(value)] = f"CONSTANTS.c{len(self.constants)}"
            self._refs_value = self.value(value, name)
        return name

    def value(self, value: Any, name: str, type_: Type | None = None) -> Plain:
        """Return the plain data of a value; ``type_`` is the type that is declared, if any is."""
        if isinstance(type_, OptionalType):
            type_ = type_.element
        match value:
            case None | bool() | int() | float() | complex() | str():
                return value
            case Object():
                return self._object(value, name)
            case Reduce():
                return self._reduce(value, name, type_)
            case Memoised():
                return self.value(value.value, name, type_)
            case tuple():
                types = type_.elements if isinstance(type_, TupleType) else (type_,) * len(value)
                items = zip(value, types, strict=False)
                return {"tuple": [self.value(v, f"{name}.{i}", t) for i, (v, t) in enumerate(items)]}
            case list():
                inner = type_.element if isinstance(type_, ListType) else type_
                return {"list": [self.value(v, f"{name}.{i}", inner) for i, v in enumerate(value)]}
            case dict():
                key, inner = (
                    (type_.key, type_.value) if isinstance(type_, DictType) else (type_, type_)
                )
                return {
                    "dict": [
                        [
                            self.value(k, f"{name}.<key {i}>", key),
                            self.value(v, f"{name}.{k}", inner),
                        ]
                        for i, (k, v) in enumerate(value.items())
                    ]
                }
        raise PickleError(f"no form for {type(value).__name__}", record=self._record)

    def _object(self, value: Object, name: str) -> Plain:
        known = self._refs.get(id(value))
        if known is not None:
            return {"object": known}
        self._refs[id(value)] = len(self._refs)
        class_ = self.program.code.find_class(value.cls.qualified_name)
        assert isinstance(class_, ClassType), class_
        prefix = f"{name}." if name else ""
        own = self.encoding.name(class_)
        if isinstance(value.state, dict):
            slots: list[Plain] = []
            for key, item in value.state.items():
                slot = class_.attributes.get(key)
                type_ = None if slot is None else slot.type
                slots.append([key, self.value(item, f"{prefix}{key}", type_)])
            return {"class": own, "attributes": slots}
        schema = method_schema(class_, "__getstate__")
        returned = None if schema is None else schema.return_type
        return {"class": own, "state": self.value(value.state, f"{prefix}__getstate__", returned)}

    def _reduce(self, value: Reduce, name: str, type_: Type | None) -> Plain:
        if is_tensor(value):
            return self._tensor(value, name)
        function = value.function
        match value.argument:
            case (content, str(tag)) if function == Global(_TAG, "restore_type_tag"):
                own = self.program.code.parse_type(tag)
                plain = self.value(content, name, own)
                if type_ is None or own == type_:
                    return plain
                return {"typed": self.encoding.type(own), "value": plain}
            case (list() as content,) if function.module == _TAG:
                return self.value(content, name, type_)
            case (str(device),) if function == Global("torch", "device"):
                return {"device": device}
        if function.qualified_name.startswith("__torch__"):
            class_ = self.program.code.find_class(function.qualified_name)
            return {"enum": self.encoding.name(class_), "value": self.value(value.argument, name)}
        return {"call": function.qualified_name, "value": self.value(value.argument, name)}

    def _tensor(self, value: Reduce, name: str) -> Plain:
        stored = self._stored[self._record]
        found = stored.tensor(plain_tensor(value, stored.record))
        grad = getattr(found, "requires_grad", False)
        if isinstance(found, Wrapped):
            found = stored.tensor(found.tensor)
        match found:
            case DenseTensor(view, _, flags):
                described: dict[str, Plain] = {"flags": sorted(flags)} if flags else {}
                self._digest(name, view, flags)
                return {"tensor": view.storage.dtype, "shape": [*view.size],
                        "device": view.storage.device, "grad": grad} | described
            case QuantizedTensor(view, quantizer):
                self._digest(name, view, {})
                if isinstance(quantizer, PerTensor):
                    scheme: Plain = [quantizer.scale, quantizer.zero_point]
                else:
                    scheme = [quantizer.axis]
                    self._numbers(f"{name}.scales", quantizer.scales, "d")
                    self._numbers(f"{name}.zero_points", quantizer.zero_points, "q")
                return {"tensor": view.storage.dtype, "shape": [*view.size],
                        "device": view.storage.device, "quantizer": scheme}
            case SparseTensor(layout, size, parts, _):
                return {"sparse": layout, "shape": [*size], "grad": grad,
                        "parts": [self.value(p, f"{name}.{i}") for i, p in enumerate(parts)]}
        raise AssertionError(found)

    def _numbers(self, name: str, numbers: Reduce | list[Any], code: str) -> None:
        if isinstance(numbers, Reduce):
            self._tensor(numbers, name)
        else:
            packed = struct.pack(f"<{len(numbers)}{code}", *numbers)
            self.tensors[name] = hashlib.sha256(packed).hexdigest()

    def _digest(self, name: str, view: StridedView, flags: Any) -> None:
        self.tensors[name] = self.elements.digest(self._record, view).hex()


def fingerprint(container: Container, weights: bool = True) -> dict[str, Any]:
    data = ArchiveData(container)
    structure = encode(data.structure)
    code = encode(data.code)
    return {
        "code": hashlib.sha256(code).hexdigest(),
        "structure": hashlib.sha256(structure).hexdigest(),
        "weights": hashlib.sha256(encode(data.tensors)).hexdigest(),
        "tensors": data.tensors,
        "faults": data.program.faults,
        "plain": (data.structure, data.code),
    }
