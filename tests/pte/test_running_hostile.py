"""Programs of ExecuTorch that nobody exported: each is refused, or runs within its memory."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from fixtures.executorch_programs import (
    PRIM,
    bounded,
    file_of,
    free,
    jump,
    method,
    move,
    tensors,
)
from fixtures.executorch_samples import BIAS, LONG, kernel, tensor
from tests.support.executorch_files import loaded, mutated
from tests.support.processes import torch_process
from tsarchive.errors import (
    ArchiveError,
    FormatError,
    LimitError,
    UnknownOperatorError,
    UnsupportedError,
)

COMPLEX32 = 8
X, Y = tensor([2], at=(1, 0)), tensor([2], at=(1, 16))


def refused(*methods, match, error=FormatError, **more):
    with pytest.raises(error, match=match):
        loaded(*methods, **more)()


@pytest.mark.parametrize(
    ("values", "steps", "match"),
    [
        ([False], [jump(0, 2)], "instruction 0 jumps to 2, behind the end"),
        ([False], [jump(0, -1)], "instruction 0 jumps to -1"),
        ([7], [jump(0, 0)], "it jumps by value 0, which is no bool"),
        (["text"], [jump(0, 0)], "it jumps by value 0"),
        ([False], [jump(9, 0)], "uses value 9, which is not there"),
        ([1], [move(0, 9)], "uses value 9"),
        ([1], [move(-1, 0)], "uses value -1"),
        ([1, "text"], [move(0, 1)], "value 1 holds str, and is given int"),
        ([1, X], [move(0, 1)], "value 1 holds Tensor, and is given int"),
        ([1, [0]], [move(0, 1)], "value 1, which is a list"),
        ([X], [kernel(5, 0)], "calls operator 5, which is not there"),
        ([X], [("aten::relu.out", 0)], "aten::relu.out has 1 arguments, and takes 3"),
        ([X, 1], [("aten::relu.out", 1, 0, 0)], "self is Tensor, and value 1 is int"),
        ([X, "a"], [("aten::relu.out", 0, 1, 1)], "writes to value 1, which is no tensor"),
        ([X, None], [("aten::relu.out", 0, 1, 1)], "writes to value 1, which is no tensor"),
        ([X], [("aten::relu.out", 0, 8, 8)], "uses value 8, which is not there"),
        ([X, [0]], [("aten::permute_copy.out", 0, 1, 0, 0)], "stands in a list of"),
        ([X, [7]], [("aten::permute_copy.out", 0, 1, 0, 0)], "uses value 7"),
        ([1, 2, X], [(f"{PRIM}add.Scalar", 0, 1, 2)], "value 2 holds Tensor, and is given int"),
        ([1, "a", 2], [(f"{PRIM}add.Scalar", 0, 1, 2)], "b is number, and value 1 is str"),
        ([1, 0.5, 2], [(f"{PRIM}mod.Scalar", 0, 1, 2)], "b is int, and value 1 is float"),
    ],
)
def test_instructions_that_break_a_rule(values, steps, match):
    refused(method(values, steps, [], []), match=match)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"at": (1, 1020)}, "ends at 1,028 of arena 1, which has 1,024 bytes"),
        ({"at": (3, 0)}, "it is in arena 3, which is not there"),
        ({"at": (0, 0)}, "it is in arena 0, which is not there"),
        ({"at": (1, 2)}, "begins at 2 of arena 1, between two elements"),
        ({"at": (1, 0), "storage_offset": 1}, "the storage offset is 1"),
        ({"at": (1, 0), "dim_order": [1]}, "no permutation"),
        ({"at": (1, 0), "scalar_type": 21}, "the scalar type 21 is not known"),
        ({"data": 5}, "there is no inline constant 5"),
    ],
)
def test_tensors_that_break_a_rule(changed, match):
    refused(method([tensor([2], **changed)], [], [], [0]), match=match)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"at": (1, 0), "shape_dynamism": 2}, "its sizes are not bound"),
        ({"at": (1, 0), "scalar_type": 12}, "cannot hold elements of type qint8"),
    ],
)
def test_tensors_that_no_plan_holds(changed, match):
    made = method([tensor([2], **changed)], [], [], [0])
    refused(made, match=match, error=UnsupportedError)


def test_an_arena_that_no_machine_has():
    made = method([X], [], [], [0], non_const_buffer_sizes=[0, 1 << 62])
    refused(made, match="arena of 4,611,686,018,427,387,904 bytes", error=LimitError)


def test_inputs_and_outputs_that_are_not_there():
    refused(method([X], [], [7], [0]), match="value 7 is not there")
    refused(method([X], [], [0], [7]), match="value 7, which is not there")


def test_a_result_over_what_is_read_is_as_if_it_were_not():
    """Results that lie partly in arguments: torch would read what it has just written."""
    overlapping = tensor([4], at=(1, 4))
    values = [tensor([4], at=(1, 0)), 1, overlapping]
    module = loaded(method(values, [("aten::add.out", 0, 0, 1, 2, 2)], [0], [2]))
    assert module(torch.arange(4.0)).tolist() == [0, 2, 4, 6]


def test_indices_that_are_overwritten_while_they_are_read():
    """Kernels that check indices first, and read them again, read those that were checked."""
    index = tensor([4], LONG, at=(1, 0))
    values = [tensor([4], LONG, at=(1, 64)), 0, index, tensor([4], LONG, at=(1, 8))]
    steps = [("aten::index_select.out", 0, 1, 2, 3, 3)]
    module = loaded(method(values, steps, [0, 2], [3]))
    found = module(torch.tensor([1 << 40] * 4), torch.tensor([3, 2, 1, 0]))
    assert found.tolist() == [1 << 40] * 4


def test_results_that_lie_in_each_other():
    most, where = tensor([], LONG, at=(1, 64)), tensor([], LONG, at=(1, 64))
    values = [tensor([4], LONG, at=(1, 0)), 0, False, most, where]
    steps = [("aten::max.dim_max", 0, 1, 2, 3, 4, 3)]
    module = loaded(method(values, steps, [0], [3, 4]))
    first, second = module(torch.tensor([5, 9, 1, 3]))
    assert first.item() == second.item() in (1, 9)


def test_one_tensor_for_two_results():
    values = [tensor([4], LONG, at=(1, 0)), 0, False, tensor([], LONG, at=(1, 64))]
    steps = [("aten::max.dim_max", 0, 1, 2, 3, 3, 3)]
    module = loaded(method(values, steps, [0], [3]))
    assert module(torch.tensor([5, 9, 1, 3])).item() in (1, 9)


def test_a_moved_tensor_keeps_its_bound():
    """A value that was moved to has the memory of the other, and no more."""
    values = [bounded([8], (1, 0)), bounded([2], (1, 64)), bounded([8], (1, 128)), 1]
    steps = [move(1, 2), ("aten::add.out", 0, 0, 3, 2, 2)]
    module = loaded(method(values, steps, [0], [2]))
    assert module(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError):
        module(torch.ones(3))


def test_a_view_of_a_bounded_tensor_has_no_more_memory():
    values = [bounded([2], (1, 0)), [2], 8, bounded([8], (1, 64)), bounded([8], (1, 128)), 1]
    steps = [
        (f"{PRIM}et_view.default", 0, 1, 3, 3),
        ("aten::add.out", 4, 4, 5, 3, 3),
    ]
    module = loaded(method(values, steps, [0, 4], [3]))
    with pytest.raises(RuntimeError):
        module(torch.ones(2), torch.ones(8))


@pytest.mark.parametrize("index", [-1, 4, 1 << 40])
def test_rows_that_are_not_there(index):
    values = [bounded([4, 2], (1, 0)), tensor([2], at=(1, 64)), index]
    module = loaded(method(values, [(f"{PRIM}et_copy_index.tensor", 0, 1, 2)], [1], [0]))
    with pytest.raises(RuntimeError):
        module(torch.ones(2))


@pytest.mark.parametrize("name", ["aten::resize_", "aten::set_", "aten::as_strided_"])
def test_operators_that_reach_memory_are_refused(name):
    made = method([X, [2], 1], [(name, 0, 1, 2, 0)], [], [0])
    with pytest.raises(ArchiveError):
        loaded(made)()


def test_in_place_operators_change_no_sizes():
    values = [tensor([2, 3], at=(1, 0)), 0, 1]
    module = loaded(method(values, [("aten::transpose_", 0, 1, 2, 0)], [0], [0]))
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        try:
            found = module(x)
        except (RuntimeError, ArchiveError):
            continue
        assert torch.equal(found, x)


def test_an_operator_that_makes_its_own_result():
    made = method([X, Y], [("aten::relu", 0, 1)], [], [1])
    refused(made, match="makes a result of its own", error=UnsupportedError)


def test_a_constant_that_a_program_writes_to_stays_in_the_file(tmp_path):
    made = method([tensor([3], data=1), 1], [("aten::add_.Tensor", 0, 0, 1, 0)], [], [0])
    data = file_of(
        made,
        data=BIAS,
        segments=[{"offset": 0, "size": 12}],
        constant_segment={"segment_index": 0, "offsets": [0, 0]},
    )
    path = tmp_path / "program.pte"
    path.write_bytes(data)
    assert tsarchive.load(path)().tolist() == [2, 4, 6]
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", ["training", "tensors of forward", "__class__", "forward", ""])
def test_names_of_buffers(name):
    info = {"fully_qualified_name": name}
    state = tensor([2], at=(1, 0), extra_tensor_info=info)
    try:
        module = loaded(method([state], [], [], [0]))
    except FormatError:
        return
    assert module.forward().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["__init__", "__class__", "eval", "state_dict", "a b", "", "é"])
def test_names_of_methods(name):
    module = loaded(method([7], [], [], [0], name=name), method([8], [], [], [0]))
    assert module() == 8
    assert isinstance(module, torch.nn.Module)
    assert module.eval() is module


def test_many_moves_in_the_wrong_order():
    """Which values may share memory is found in one pass, whatever the order."""
    count = 4000
    values = [tensor([2], at=(1, 0)) for _ in range(count)]
    steps = [move(number, number + 1) for number in reversed(range(count - 1))]
    module = loaded(method(values, steps, [0], [0]))
    assert module(torch.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.long("test_many_moves_in_the_wrong_order")
def test_many_jumps():
    count = 2000
    steps = [jump(0, number + 1) for number in range(count)]
    assert loaded(method([False, 7], steps, [], [1]))() == 7


def test_damaged_programs_run_within_their_limits():
    """Whatever the bytes: a result, an error of this library, or one that an operator raises."""
    limits = tsarchive.Limits(steps=2000, seconds=2.0, nbytes=1 << 24)
    ran = 0
    for data in mutated(seed=7, count=300):
        try:
            module = tsarchive.load(io.BytesIO(data), limits=limits)
            for name in module.tsarchive_class.methods:
                inputs = module.tsarchive_class.methods[name].schema.arguments[1:]
                getattr(module, name)(*[torch.ones(2, 4)] * len(inputs))
                ran += 1
        except ArchiveError:
            continue
        except RuntimeError:
            ran += 1
        except AttributeError:
            continue  # a method whose name hides a member of modules
    assert ran


def test_lists_that_name_each_other():
    made = method([X, tensors(1, 0), [1]], [("aten::cat.out", 1, 2, 0, 0)], [], [0])
    refused(made, match="which is a list")


def test_what_is_freed_must_be_there():
    made = method([X], [free(4)], [0], [0])
    assert loaded(made)(torch.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["aten", "", "::", "aten::", "aten::relu\0", "a::b::c"])
def test_names_of_operators(name):
    made = method([X, Y], [("aten::relu.out", 0, 1, 1)], [], [1])
    made["operators"] = [{"name": name, "overload": "out"}]
    refused(made, match="is not registered", error=UnknownOperatorError)


def test_what_is_not_sound_is_not_given_to_a_runtime(monkeypatch):
    """The runtime does not look at where jumps lead."""
    monkeypatch.setattr("tsarchive.formats.executorch.modules.delegates.can_run", lambda: True)
    call = {"instr_args": ("DelegateCall", {"delegate_index": 0, "args": [0, 1]})}
    backend = {"id": "XnnpackBackend", "processed": {"location": 0, "index": 0}}
    for target in (2, 9):
        made = method([X, Y, False], [call, jump(2, target)], [0], [1], delegates=[backend])
        data = io.BytesIO(file_of(made, backend_delegate_data=[{"data": bytes(32)}]))
        if target == 2:
            assert tsarchive.load(data).tsarchive_class.methods.keys() == {"forward"}
        else:
            with pytest.raises(FormatError, match="jumps to 9"):
                tsarchive.load(data)


@pytest.mark.long("test_operators_that_reach_memory_are_refused")
def test_what_torch_says_of_dtypes_reaches_nobody(tmp_path):
    """It warns once in each process, so in one that nobody has warned before."""
    path = tmp_path / "half.pte"
    halves = [tensor([2], COMPLEX32, at=(1, 0)), None, tensor([2], COMPLEX32, at=(1, 16))]
    path.write_bytes(file_of(method(halves, [("aten::clone.out", 0, 1, 2, 2)], [], [2])))
    code = (
        "import sys, tsarchive\n"
        "limits = tsarchive.Limits(nbytes=1 << 20)\n"
        "print(tsarchive.load(sys.argv[1], limits=limits)().dtype)"
    )
    done = torch_process("-c", code, path, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("torch.complex32\n", "")
