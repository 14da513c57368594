"""Arguments of a model on the command line: random tensors, literals, files, their order."""

from __future__ import annotations

import math

import click
import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.cli.inputs import (
    DEFAULT_HIGH,
    InputsCommand,
    gather,
    input_options,
    random_tensor,
)

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
    "complex64", "complex128", "float8_e4m3fn",
)  # fmt: skip


def parsed(*args):
    """The file and the other arguments as InputsCommand leaves them."""
    found = []

    @click.command(cls=InputsCommand)
    @click.argument("arguments", nargs=-1)
    @click.option("--method")
    @input_options
    def command(file, arguments, method, seed):
        found.append((file, arguments))

    command.main([str(arg) for arg in args], standalone_mode=False)
    return found[0]


def inputs(*args, seed=0):
    file, rest = parsed("model.pt", *args)
    assert file == "model.pt"
    return gather(rest, seed)


def random(spec, seed=0):
    return random_tensor(spec, torch.Generator().manual_seed(seed))


@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    dtype=st.sampled_from(DTYPES),
    high=st.none() | st.integers(1, 100),
)
def test_random_tensors_are_as_described(shape, dtype, high):
    spec = f"{'x'.join(map(str, shape))}:{dtype}" + (f"<{high}" if high is not None else "")
    if dtype == "bool" and high is not None:
        with pytest.raises(click.BadParameter, match="no bound"):
            random(spec)
        return
    tensor = random(spec)
    assert (list(tensor.shape), str(tensor.dtype)) == (shape, f"torch.{dtype}")
    if not tensor.is_complex() and dtype != "bool":
        values = tensor.to(torch.float64)
        is_integer = not tensor.dtype.is_floating_point
        bound = DEFAULT_HIGH if is_integer and high is None else math.inf if high is None else high
        assert bool((values <= bound).all())
        assert not is_integer or bool(((values >= 0) & (values < bound)).all())


@pytest.mark.parametrize("spec", ["4:uint8<300", "4:int8<129", "4:int16<40000"])
def test_a_bound_beyond_the_dtype_is_refused(spec):
    with pytest.raises(click.BadParameter, match="does not fit"):
        random(spec)


def test_the_defaults_of_random_tensors():
    assert random("2x3").dtype is torch.float32
    assert random("scalar").shape == ()
    assert random("100x100").min() < -1
    assert random("100x100<0.5").max() <= 0.5
    assert set(random("1000:int64").tolist()) == set(range(DEFAULT_HIGH))


def test_the_seed_decides():
    assert torch.equal(random("5", seed=1), random("5", seed=1))
    assert not torch.equal(random("5", seed=1), random("5", seed=2))
    first, second = inputs("--random", "5", "--random", "5").args
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "spec",
    ["", "x", "3x", "1x-3", "3:", "3:int64<", "3<a", "3:float31", "3:nn", "3:int64<0", "1,3"],
)
def test_descriptions_that_are_none(spec):
    with pytest.raises(click.BadParameter):
        random(spec)


def test_a_tensor_that_does_not_fit_into_memory():
    with pytest.raises(click.BadParameter, match="torch cannot make"):
        random("999999999x999999999")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("[1, 2]", [1, 2]),
        ("'text'", "text"),
        ('"a=b"', "a=b"),
        ("None", None),
        ("(1, {'a': 2.5})", (1, {"a": 2.5})),
        (" 3", 3),
    ],
)
def test_literals(text, value):
    assert inputs("--arg", text).args == [value]
    assert inputs(f"--arg={text}").args == [value]
    assert inputs("--arg", f"limit={text}").kwargs == {"limit": value}


@pytest.mark.parametrize("text", ["greedy", "", "1 +", "print(1)", "a==3", "__import__('os')"])
def test_what_is_no_literal_is_refused(text):
    with pytest.raises(click.BadParameter, match="not a Python literal"):
        inputs("--arg", text)


def test_a_name_that_is_given_twice():
    with pytest.raises(click.UsageError, match="'a' is given twice"):
        inputs("--arg", "a=1", "--random", "a=2x2")


@pytest.mark.parametrize(
    "args",
    [
        ["model.pt", "--arg", "1", "x.npy", "--arg=2", "y.npy"],
        ["--arg", "1", "model.pt", "x.npy", "--method", "encode", "--arg", "2", "y.npy"],
        ["--method=encode", "--arg", "1", "--", "model.pt", "x.npy"],
    ],
)
def test_the_order_of_the_command_line_is_kept(args):
    file, rest = parsed(*args)
    assert file == "model.pt"
    expected = ["\0--arg=1", "x.npy", "\0--arg=2", "y.npy"]
    assert rest == (expected[:2] if "--" in args else expected)


def test_after_two_dashes_everything_is_a_file():
    assert parsed("model.pt", "--", "--arg", "1") == ("model.pt", ["--arg", "1"])


def test_there_may_be_no_file():
    assert parsed("--arg", "1") == (None, ["\0--arg=1"])


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        numpy.arange(6, dtype=numpy.int64)[::2],
        numpy.asfortranarray(numpy.ones((2, 3))),
        numpy.arange(3, dtype=">f4"),
        numpy.array(True),
        numpy.zeros((0, 2), dtype=numpy.uint8),
        numpy.array([1 + 2j]),
    ],
    ids=lambda array: f"{array.dtype.str}-{array.shape}",
)
def test_npy(array, tmp_path):
    numpy.save(tmp_path / "x.npy", array)
    (tensor,) = inputs(tmp_path / "x.npy").args
    assert tensor.tolist() == array.tolist()
    assert list(tensor.shape) == list(array.shape)


def test_npz(tmp_path):
    numpy.savez(tmp_path / "x.npz", arg_1=numpy.ones(1), limit=numpy.array(3), arg_0=numpy.zeros(2))
    found = inputs(tmp_path / "x.npz")
    assert [tensor.tolist() for tensor in found.args] == [[0, 0], [1]]
    assert {name: tensor.item() for name, tensor in found.kwargs.items()} == {"limit": 3}


@pytest.mark.parametrize(
    ("value", "args", "kwargs"),
    [
        (torch.ones(2), [torch.ones(2)], {}),
        ((torch.ones(2), 3, "a"), [torch.ones(2), 3, "a"], {}),
        ([torch.ones(2), torch.zeros(1)], [[torch.ones(2), torch.zeros(1)]], {}),
        ({"x": torch.ones(2), "mode": "a"}, [], {"x": torch.ones(2), "mode": "a"}),
        (5, [5], {}),
    ],
    ids=["tensor", "tuple", "list", "dict", "int"],
)
def test_pt(value, args, kwargs, tmp_path):
    torch.save(value, tmp_path / "x.pt")
    found = inputs(tmp_path / "x.pt")
    assert repr((found.args, found.kwargs)) == repr((args, kwargs))


class Unknown:
    pass


def test_files_that_run_code_are_refused(tmp_path):
    torch.save(Unknown(), tmp_path / "object.pt")
    numpy.save(tmp_path / "object.npy", numpy.array([Unknown()]), allow_pickle=True)
    with pytest.raises(click.BadParameter, match="more than tensors and plain values"):
        inputs(tmp_path / "object.pt")
    with pytest.raises(click.BadParameter, match="cannot be read"):
        inputs(tmp_path / "object.npy")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.pt"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_malformed_files(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(click.BadParameter):
        inputs(tmp_path / name)


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda path: numpy.save(path, numpy.array(["text"])), "cannot be read"),
        (lambda path: numpy.savez(path, arg_1=numpy.ones(1)), "lacks an argument"),
        (lambda path: torch.save({1: torch.ones(1)}, path), "no argument name"),
        (lambda path: torch.save({"a b": torch.ones(1)}, path), "no argument name"),
    ],
    ids=["strings", "gap", "number", "blank"],
)
def test_files_that_hold_no_inputs(save, message, tmp_path):
    suffix = {"cannot be read": ".npy", "lacks an argument": ".npz"}.get(message, ".pt")
    path = str(tmp_path / f"x{suffix}")
    save(path)
    with pytest.raises(click.BadParameter, match=message):
        inputs(path)


def test_a_file_that_is_not_there_and_one_of_another_kind(tmp_path):
    with pytest.raises(FileNotFoundError):
        inputs(tmp_path / "x.npy")
    with pytest.raises(click.BadParameter, match="endings"):
        inputs(tmp_path / "x.png")
