"""Programs of ExecuTorch as modules: what they compute, keep, take and give."""

from __future__ import annotations

import copy
import io
import pickle
import struct
import threading

import pytest
import torch

import tsarchive
from fixtures.executorch_programs import (
    ADD,
    PRIM,
    adding,
    bounded,
    choosing,
    counting,
    file_of,
    free,
    jump,
    mapping,
    method,
    move,
    tensors,
)
from fixtures.executorch_samples import (
    BIAS,
    BOOL,
    DATA,
    FLOAT,
    LONG,
    data_file,
    tensor,
)
from tests.support.executorch_files import FIXTURES, loaded
from tests.support.processes import torch_process


def test_a_fixture_runs():
    module = tsarchive.load(FIXTURES / "linear.pte")
    x = torch.randn(2, 4)
    weight = torch.arange(12.0).reshape(4, 3)
    expected = x @ weight + torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("name", ["linear_24.pte", "inline.pte", "linear.bpte"])
def test_constants_of_every_form_are_found(name):
    x = torch.randn(2, 4)
    expected = tsarchive.load(FIXTURES / "linear.pte")(x)
    assert torch.equal(tsarchive.load(FIXTURES / name)(x), expected)


def test_constants_are_buffers_over_the_file():
    module = tsarchive.load(FIXTURES / "linear.pte")
    assert {name: tuple(t.shape) for name, t in module.state_dict().items()} == {
        "forward.0": (3,), "forward.2": (4, 3),
    }  # fmt: skip
    before = module(torch.zeros(2, 4))
    module.state_dict()["forward.0"].fill_(7.0)
    assert module(torch.zeros(2, 4)).eq(7).all()
    assert torch.equal(tsarchive.load(FIXTURES / "linear.pte")(torch.zeros(2, 4)), before)


def test_results_are_copies():
    module = loaded(adding())
    first = module(torch.ones(2))
    module(torch.full((2,), 5.0))
    assert first.tolist() == [2.0, 2.0]


def test_arguments_are_not_written_to():
    steps = [("aten::add_.Tensor", 0, 0, 1, 0)]
    module = loaded(method([tensor([2]), 1], steps, [0], [0]))
    x = torch.ones(2)
    assert module(x).tolist() == [2.0, 2.0]
    assert x.tolist() == [1.0, 1.0]


def test_a_value_over_the_memory_of_another_is_that():
    """Views are left out of programs: their values have the place of what they view."""
    values = [tensor([2, 2], at=(1, 0)), 1, tensor([4], at=(1, 0)), tensor([4], at=(1, 32))]
    module = loaded(method(values, [("aten::add.out", 2, 2, 1, 3, 3)], [0], [3]))
    assert module(torch.arange(4.0).reshape(2, 2)).tolist() == [0, 2, 4, 6]


def test_results_keep_the_order_of_dimensions():
    x = tensor([1, 2, 3, 4], at=(1, 0), dim_order=[0, 2, 3, 1])
    y = tensor([1, 2, 3, 4], at=(1, 128), dim_order=[0, 2, 3, 1])
    module = loaded(method([x, 1, y], [ADD], [0], [2]))
    given = torch.arange(24.0).reshape(1, 2, 3, 4)
    found = module(given)
    assert torch.equal(found, 2 * given)
    assert found.is_contiguous(memory_format=torch.channels_last)


# Jumps


def test_both_branches():
    module = loaded(choosing())
    for _ in range(2):
        assert module(torch.tensor(True), torch.ones(2)).tolist() == [2.0, 2.0]
        assert module(torch.tensor(False), torch.ones(2)).tolist() == [0.0, 0.0]


def test_a_jump_by_several_bools_is_taken_unless_all_hold():
    values = [tensor([2], BOOL, at=(1, 0)), 0, 1, 0]
    steps = [jump(0, 3), move(2, 3), jump(4, 4), move(1, 3)]
    module = loaded(method([*values, False], steps, [0], [3]))
    found = [module(torch.tensor(given)) for given in ([True, True], [True, False])]
    assert found == [1, 0]


def test_a_loop_can_run_again():
    module = loaded(mapping())
    x = torch.arange(8.0).reshape(4, 2)
    for _ in range(3):
        assert torch.equal(module(x), 2 * x)


def test_a_loop_that_fails_leaves_its_counter_as_the_runtime_does():
    values = [0, 1, False]
    steps = [(f"{PRIM}add.Scalar", 0, 1, 0), jump(2, 3), jump(2, 0)]
    module = loaded(method(values, steps, [], [0]))
    assert [module(), module(), module()] == [1, 2, 3]


def test_jumps_between_any_instructions():
    """Into the middle of a loop, and out of it from two places."""
    values = [0, 1, 3, 7, False, False, False]
    steps = [
        jump(6, 2),  # over the first instruction of the loop
        (f"{PRIM}add.Scalar", 0, 1, 0),
        (f"{PRIM}add.Scalar", 0, 2, 0),
        (f"{PRIM}ge.Scalar", 0, 3, 4),
        jump(4, 1),
        jump(6, 6),
    ]
    module = loaded(method(values, steps, [], [0]))
    assert module() == 7
    assert module() == 10


def test_an_endless_loop_ends_as_in_the_runtime():
    module = loaded(method([False], [jump(0, 0)], [], [0]))
    with pytest.raises(tsarchive.LimitError, match="does not come to an end"):
        module()


def test_chains_run_one_after_the_other():
    made = adding()
    one = {"instr_args": ("KernelCall", {"op_index": 0, "args": [2, 2, 1, 2, 2]})}
    made["chains"] = [*made["chains"], {"inputs": [], "outputs": [], "instructions": [one]}]
    assert loaded(made)(torch.ones(2)).tolist() == [4.0, 4.0]


def test_a_freed_value_is_there_for_the_next_call():
    values = [tensor([2], at=(1, 0)), 1, tensor([2], at=(1, 16)), tensor([2], at=(1, 32))]
    steps = [("aten::add.out", 0, 0, 1, 2, 2), ("aten::add.out", 2, 0, 1, 3, 3), free(2)]
    module = loaded(method(values, steps, [0], [3]))
    assert [module(torch.ones(2)).tolist() for _ in range(2)] == [[3.0, 3.0]] * 2


# Numbers


def test_the_number_that_a_tensor_holds():
    values = [tensor([], LONG, at=(1, 0)), 0]
    module = loaded(method(values, [("aten::_local_scalar_dense", 0, 1)], [0], [1]))
    assert module(torch.tensor(7)) == 7


@pytest.mark.parametrize(("kind", "held"), [(FLOAT, 2.5), (BOOL, True), (LONG, -3)])
def test_numbers_are_of_the_type_of_their_tensor(kind, held):
    """Writers declare integers for all of them."""
    values = [tensor([], kind, at=(1, 0)), 0]
    module = loaded(method(values, [("aten::_local_scalar_dense", 0, 1)], [0], [1]))
    found = module(torch.tensor(held))
    assert (type(found), found) == (type(held), held)


def by_size():
    """``x + x if x.size(0) > 2 else x - x``; the comparison goes where an integer is."""
    values = [bounded([4], (1, 0)), 0, 0, 2, 0, 1, bounded([4], (1, 16)), False,
              bounded([4], (1, 32)), bounded([4], (1, 48))]  # fmt: skip
    steps = [
        ("aten::sym_size.int", 0, 1, 2), (f"{PRIM}gt.Scalar", 2, 3, 4), jump(4, 6),
        ("aten::add.out", 0, 0, 5, 6, 6), move(6, 9), jump(7, 8),
        ("aten::sub.out", 0, 0, 5, 8, 8), move(8, 9),
    ]  # fmt: skip
    return method(values, steps, [0], [9])


def test_a_choice_by_a_size():
    module = loaded(by_size())
    for size in (4, 1, 3, 2):
        x = torch.arange(1.0, size + 1)
        assert torch.equal(module(x), x + x if size > 2 else x - x)
    assert tsarchive.verify(io.BytesIO(file_of(by_size()))).ok


def test_a_number_becomes_one_of_another_type_but_once():
    values = [1, 2, 0.5, 0]
    steps = [(f"{PRIM}eq.Scalar", 0, 1, 3), (f"{PRIM}add.Scalar", 0, 2, 3)]
    with pytest.raises(tsarchive.FormatError, match="value 3 holds bool, and is given float"):
        loaded(method(values, steps, [], [3]))()


def test_what_the_runtime_loads_in_no_way_does_not_run():
    with pytest.raises(tsarchive.FormatError, match="no chain of instructions"):
        loaded(adding(chains=[]))
    with pytest.raises(tsarchive.UnsupportedError, match="the version 1, newer than any"):
        loaded(adding(), version=1)
    later = io.BytesIO(data_file({**DATA, "version": 1}, b""))
    with pytest.raises(tsarchive.UnsupportedError, match="the version 1, newer than any"):
        tsarchive.load(io.BytesIO(file_of(adding())), data=later)


# Arguments and results


def json_tree(inputs, outputs):
    return {"encoded_inp_str": inputs, "encoded_out_str": outputs}


LEAF = '{"type": null, "context": null, "children_spec": []}'


def node(kind, *children, context="null"):
    inner = ", ".join(children)
    return f'{{"type": "builtins.{kind}", "context": "{context}", "children_spec": [{inner}]}}'


NESTED = json_tree(
    "[1, {}]".format(
        node(
            "tuple",
            node("tuple", node("list", LEAF, LEAF)),
            node("dict", LEAF, context='[\\"scale\\"]'),
        )
    ),
    "[1, {}]".format(node("dict", LEAF, context='[\\"y\\"]')),
)


def nested(container):
    values = [tensor([2], at=(1, n * 16)) for n in range(3)] + [1, tensor([2], at=(1, 64))]
    steps = [("aten::add.out", 0, 1, 3, 4, 4), ("aten::mul.out", 4, 2, 4, 4)]
    return method(values, steps, [0, 1, 2], [4], container_meta_type=container)


@pytest.mark.parametrize(
    "container",
    [NESTED, json_tree("T2#2#1(T1#2(L2#1#1($,$)),D1#1('scale':$))", "D1#1('y':$)")],
)
def test_arguments_and_results_are_nested_as_the_file_says(container):
    module = loaded(nested(container))
    ones, twos = torch.ones(2), torch.full((2,), 2.0)
    assert module([ones, twos], scale=twos)["y"].tolist() == [6.0, 6.0]
    assert module(ones, twos, twos)["y"].tolist() == [6.0, 6.0]


@pytest.mark.parametrize("text", ["", "T2#9(", "[1, {}]", "{", "T1#1($", "$$", "T1#2($)"])
def test_a_nesting_that_nothing_can_be_made_of_is_not_needed(text):
    module = loaded(nested(json_tree(text, text)))
    assert module(*[torch.ones(2)] * 3).tolist() == [2.0, 2.0]


def test_wrong_arguments_are_told():
    module = loaded(nested(NESTED))
    ones = torch.ones(2)
    with pytest.raises(tsarchive.CallError, match=r"takes 3 inputs, not 1.* argument and scale"):
        module(ones)
    with pytest.raises(tsarchive.CallError, match=r"input 1 should be float32\[2\], not float64"):
        module(ones, ones.double(), ones)
    with pytest.raises(tsarchive.CallError, match="should be a tensor, not a list"):
        module(ones, [1.0], ones)
    with pytest.raises(tsarchive.CallError, match="no inputs by these names: factor"):
        module([ones, ones], factor=ones)


def test_numbers_are_those_of_the_export():
    values = [tensor([2], at=(1, 0)), 3, 0.5, True, None]
    module = loaded(method(values, [], [0, 1, 2, 3, 4], [0]))
    x = torch.ones(2)
    assert torch.equal(module(x, 3, 0.500001, True, None), x)
    for wrong in (
        (4, 0.5, True, None),
        (3, 0.6, True, None),
        (3, 0.5, False, None),
        (3, 0.5, True, 1),
    ):
        with pytest.raises(tsarchive.CallError, match=r"is fixed at|should be None"):
            module(x, *wrong)


def test_results_of_every_kind():
    values = [1, 0.5, True, None, "text", tensor([2], at=(1, 0))]
    module = loaded(method(values, [], [5], [0, 1, 2, 3, 4, 5]))
    *found, x = module(torch.ones(2))
    assert found == [1, 0.5, True, None, "text"]
    assert x.tolist() == [1.0, 1.0]


def test_a_method_without_results_or_instructions():
    module = loaded(method([7], [], [], [], name="nothing"), method([7], [], [], [0], name="seven"))
    assert (module.nothing(), module.seven()) == (None, 7)


# State


def test_methods_share_what_is_kept_between_calls():
    module = loaded(*counting())
    ones = torch.ones(2)
    assert [module(ones).tolist(), module(ones).tolist()] == [[1.0, 1.0], [2.0, 2.0]]
    assert module.look().tolist() == [2.0, 2.0]
    assert module.state_dict()["count"].tolist() == [2.0, 2.0]
    module.load_state_dict({"count": torch.zeros(2)})
    assert module(ones).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_memory_of_their_own(copied):
    module = loaded(*counting())
    ones = torch.ones(2)
    module(ones)
    other = copied(module)
    other(ones), other(ones)
    assert (module.look().tolist(), other.look().tolist()) == ([1.0, 1.0], [3.0, 3.0])
    assert other.state_dict()["count"].tolist() == [3.0, 3.0]


def test_a_copy_keeps_the_numbers_that_calls_left():
    steps = [(f"{PRIM}add.Scalar", 0, 1, 0), jump(2, 2)]
    module = loaded(method([0, 1, True], steps, [], [0]))
    module()
    assert (copy.deepcopy(module)(), pickle.loads(pickle.dumps(module))(), module()) == (2, 2, 2)


@pytest.mark.long("test_copies_have_memory_of_their_own")
def test_a_pickle_is_read_in_another_process(tmp_path):
    module = tsarchive.load(FIXTURES / "linear.pte")
    expected = module(torch.ones(2, 4))
    path = tmp_path / "module.pkl"
    path.write_bytes(pickle.dumps((module, expected)))
    code = (
        "import pickle, sys, torch; m, e = pickle.load(open(sys.argv[1], 'rb'));"
        "assert torch.equal(m(torch.ones(2, 4)), e)"
    )
    done = torch_process("-c", code, path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_initial_values_of_what_changes():
    state = tensor([3], data=1, at=(1, 0), extra_tensor_info={"fully_qualified_name": "count"})
    made = method([state, tensor([3], data=1), 1], [("aten::add_.Tensor", 0, 1, 2, 0)], [], [0])
    data = BIAS.ljust(16, b"\0") + BIAS
    file = file_of(
        made,
        data=data,
        segments=[{"offset": 0, "size": 12}, {"offset": 16, "size": 12}],
        constant_segment={"segment_index": 0, "offsets": [0, 0]},
        mutable_data_segments=[{"segment_index": 1, "offsets": [0, 0]}],
    )
    module = tsarchive.load(io.BytesIO(file))
    assert [module().tolist(), module().tolist()] == [[2, 4, 6], [3, 6, 9]]
    assert tsarchive.load(io.BytesIO(file))().tolist() == [2, 4, 6]


def test_threads_take_turns():
    module = loaded(adding())
    failures = []

    def call(number):
        for _ in range(200):
            found = module(torch.full((2,), float(number)))
            if found.tolist() != [2.0 * number] * 2:
                failures.append(found)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# What it is loaded as


def test_what_cannot_be_loaded():
    with pytest.raises(tsarchive.UnsupportedError, match="a data file has no program"):
        tsarchive.load(FIXTURES / "data.ptd")
    with pytest.raises(tsarchive.UnsupportedError, match="runs on the CPU, not on meta"):
        tsarchive.load(FIXTURES / "add.pte", map_location="meta")
    with pytest.raises(tsarchive.CallError, match="no models by name"):
        tsarchive.load(FIXTURES / "add.pte", model="model")


def test_a_program_is_not_exported():
    module = tsarchive.load(FIXTURES / "add.pte")
    with pytest.raises(tsarchive.UnsupportedError, match="program of ExecuTorch"):
        tsarchive.to_exported_program(module, (torch.ones(2),))


def test_policies_hold():
    module = loaded(adding(), policy=tsarchive.Policy.default().forbid("aten::add"))
    with pytest.raises(tsarchive.PolicyError, match=r"aten::add.out.*the caller forbids"):
        module(torch.ones(2))
    made = method([tensor([2], at=(1, 0))], [("aten::set_", 0, 0)], [], [0])
    with pytest.raises(tsarchive.PolicyError, match="aten::set_"):
        loaded(made)()


def test_limits_hold():
    module = loaded(mapping(), limits=tsarchive.Limits(steps=20))
    with pytest.raises(tsarchive.LimitError):
        module(torch.zeros(4, 2))
    with pytest.raises(tsarchive.LimitError):
        loaded(adding(non_const_buffer_sizes=[0, 1 << 20]), limits=tsarchive.Limits(nbytes=1 << 16))


def test_an_operator_that_is_not_there_is_told_when_it_is_called():
    made = method([tensor([2], at=(1, 0))], [("nobody::knows.out", 0, 0)], [], [0])
    module = loaded(made, adding(name="other"))
    assert module.other(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(
        tsarchive.UnknownOperatorError,
        match=r"nobody::knows.out.*instruction 0|instruction 0.*nobody",
    ):
        module()


def test_several_results_and_lists_of_them():
    values = [
        tensor([4], at=(1, 0)), 2, 0, tensor([2], at=(1, 16)), tensor([2], at=(1, 32)),
        tensors(3, 4), tensor([], at=(1, 48)), tensor([], LONG, at=(1, 64)), False,
    ]  # fmt: skip
    steps = [
        ("aten::split_copy.Tensor_out", 0, 1, 2, 5, 5),
        ("aten::max.dim_max", 0, 2, 8, 6, 7, 5),
    ]
    module = loaded(method(values, steps, [0], [3, 4, 6, 7]))
    first, second, most, where = module(torch.tensor([1.0, 5.0, 3.0, 4.0]))
    assert (first.tolist(), second.tolist()) == ([1.0, 5.0], [3.0, 4.0])
    assert (most.item(), where.item()) == (5.0, 1)


def test_user_source_of_a_failing_instruction():
    values = [bounded([4, 2], (1, 0)), 1, tensor([2, 2], at=(1, 64))]
    made = method(values, [ADD], [0], [2])
    frame = {"filename": "model.py", "lineno": 3, "name": "forward", "context": "return x + x"}
    made["chains"][0]["stacktrace"] = [{"items": [frame]}]
    with pytest.raises(RuntimeError) as caught:
        loaded(made)(torch.ones(1, 2))
    import traceback

    assert 'File "model.py", line 3' in "".join(traceback.format_exception(caught.value))


def test_bytes_that_are_not_aligned():
    data = b"\1" + struct.pack("<2f", 1.5, 2.5)
    made = method([tensor([2], data=1)], [], [], [0])
    module = loaded(
        made,
        data=data,
        segments=[{"offset": 0, "size": 9}],
        constant_segment={"segment_index": 0, "offsets": [0, 1]},
    )
    assert module().tolist() == [1.5, 2.5]


def test_lists_of_other_lengths():
    values = [tensor([4], at=(1, 0)), 2, 0, tensor([2], at=(1, 16)), tensors(3)]
    module = loaded(method(values, [("aten::split_copy.Tensor_out", 0, 1, 2, 4, 4)], [0], [3]))
    with pytest.raises(tsarchive.ScriptError, match="2 results stand where 1 tensors"):
        module(torch.ones(4))
