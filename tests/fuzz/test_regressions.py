"""What fuzzing found: small inputs that once gave another exception than ArchiveError, or worse."""

from __future__ import annotations

import io
import warnings

import pytest

import tsarchive
from fixtures.hostile_samples.sample import CLASS, FORWARD, archive, code_of, module, tensor
from tsarchive.pickler import Global, MarkedTuple, Object, Reduce, Value, dumps
from tsarchive.testing.mutated_archive import small_archive, take_apart

_STATE = b"\x80\x02c__torch__\nModel\n)\x81}("
_TRAINING = b"X\x08\x00\x00\x00training\x89"


def seen(data: bytes) -> list[str]:
    """The outcome of each door: ``sound``, or the name of an error of the library."""
    return [outcome(door, data) for door in (look, load, tsarchive.verify, tsarchive.audit)]


def outcome(door, data: bytes) -> str:
    try:
        door(io.BytesIO(data))
    except tsarchive.ArchiveError as error:
        return type(error).__name__ if str(error) else "no message"
    return "sound"


def look(file) -> None:
    with tsarchive.open(file) as opened:
        assert opened.tensors is not None
        opened.tree()
        assert opened.needs


def load(file) -> None:
    made = tsarchive.load(file)
    classes = type(made).tsarchive_classes
    for _, type_ in classes.table.module_classes():
        for function in type_.methods.values():
            classes.compiler.function(function).compile()


def keyed(key: bytes) -> bytes:
    """A data.pkl whose module has an attribute of this name."""
    return archive(root=_STATE + _TRAINING + key + b"Nub.")


def laughing(levels: int) -> bytes:
    """A value of two references to the next, to the bottom: 2 to the ``levels``-th ways."""
    parts = [b"Nq\x00"]
    for level in range(levels):
        get = b"h" + bytes((level,))
        parts.append(b"(" + get * 2 + b"tQq" + bytes((level + 1,)))
    return b"".join(parts)


@pytest.mark.parametrize(
    "key", [b"N" + b"\x85Q" * 5000, laughing(60)], ids=["nested", "referred to"]
)
def test_keys_of_attributes_are_not_shown_before_they_are_checked(key):
    """repr of a nested key recursed, and of one that is referred to often took for ever."""
    assert "PickleError" in seen(keyed(key))


def test_ints_of_many_digits():
    """ast.unparse of an int of more than 4300 digits raises ValueError."""
    assert "SourceError" in seen(archive(code_of("y = 0x" + "f" * 4000)))


@pytest.mark.parametrize("text", ["y = 1if x else 2", r"y = '\d'", "y = 1 is 1", "y = 0x1for x"])
def test_parsing_warns_of_nothing(text):
    """Python's parser warns of text that it takes; that text is not ours to be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes = seen(archive(code_of(text)))
    assert len(outcomes) == 4


def set_state(value: str) -> bytes:
    members = (
        "  def __getstate__(self: __torch__.Model) -> Tuple[Tensor, bool]:\n"
        "    return (self.weight, self.training)\n"
        "  def __setstate__(self: __torch__.Model,\n    state: Tuple[Tensor, bool]) -> NoneType:\n"
        f"    weight, training, = state\n    self.weight = {value}\n"
        "    self.training = training\n    return None\n"
    )
    state: Value = (tensor(), False)
    root = dumps(Object(Global("__torch__", "Model"), state))
    return archive(code_of(members=members), root=root)


@pytest.mark.parametrize(
    "value", ["torch.add(weight, torch.zeros([3]))", "torch.reshape(weight, [3])"]
)
def test_operators_that_fail_while_loading(value):
    """torch's RuntimeError came out of load."""
    assert outcome(load, set_state("torch.neg(weight)")) == "sound"
    assert outcome(load, set_state(value)) not in ("sound", "no message")


def test_a_torchbind_class_that_refuses_its_state():
    """torch's RuntimeError came out of load."""
    name = Global("__torch__.torch.classes.quantized", "LinearPackedParamsBase")
    packed = Object(name, (1, 2))
    code = CLASS + f"  packed : {name.qualified_name}\n" + FORWARD + "    return x\n"
    assert outcome(load, archive(code, root=dumps(module(packed=packed)))) not in ("sound",)


def test_model_json_that_might_be_in_another_encoding():
    """json guessed UTF-32 and imported the codec."""
    draft = take_apart(small_archive()).copy()
    first = draft.members[0].renamed(b"archive/model.json", b"archive/model.json")
    for content in (b"\x00\x00\x00{", b"{\x00\x00\x00", b"\xff\xfe{\x00", b"\x00{\x00}"):
        draft.members[0] = first.with_content(content, content, 0)
        assert outcome(look, draft.written()) == "FormatError"
        assert outcome(tsarchive.load, draft.written()) == "FormatError"


def test_reduced_values_as_keys_of_dicts():
    """A tensor as the key of an attribute."""
    key = Reduce(Global("torch._utils", "_rebuild_tensor_v2"), MarkedTuple((1, 2)))
    root = Object(Global("__torch__", "Model"), {key: 1})
    assert "PickleError" in seen(archive(root=dumps(root)))
