"""The memory plan of programs: when values are in use, where they are drawn."""

from __future__ import annotations

import io

import pytest

import tsarchive
from fixtures.executorch_samples import instructions as chain
from fixtures.executorch_samples import kernel, number, plan, program, tensor
from tests.support.executorch_files import FIXTURES, opened, sound_files
from tests.support.report_pages import read
from tsarchive.errors import LimitError
from tsarchive.formats.executorch.methods import KernelCall, Tensor
from tsarchive.reporting.memory_plan import Uses, plan_of

ADD = {"name": "aten::add", "overload": "out"}
RELU = {"name": "aten::relu", "overload": "out"}
VIEW = {"name": "executorch_prim::et_view", "overload": "default"}
OPERATORS = [ADD, RELU, VIEW]
ADD_, RELU_, VIEW_ = range(3)


def jump(condition, destination):
    fields = {"cond_value_index": condition, "destination_instruction": destination}
    return {"instr_args": ("JumpFalseCall", fields)}


def move(source, target):
    return {"instr_args": ("MoveCall", {"move_from": source, "move_to": target})}


def at(offset, arena=1, **more):
    return tensor([4], at=(arena, offset), **more)


def bytes_of(values, *made, arenas=(0, 256), **more):
    method = plan("forward", values=values, operators=OPERATORS, chains=chain(*made),
                  non_const_buffer_sizes=list(arenas), **more)  # fmt: skip
    return program({"execution_plan": [method]})


def planned(*arguments, **more):
    """The planned values of a method by their numbers."""
    with opened(bytes_of(*arguments, **more)) as archive:
        plan_ = plan_of(archive.executorch.program.method("forward"))
    return {value.index: value for value in plan_.values}


def lives(found):
    return {index: (value.first, value.last, value.role) for index, value in found.items()}


def test_straight_code():
    found = planned(
        [at(0), at(16), at(32), at(48), number(1), at(64)],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 1, 2, 2),
        kernel(ADD_, 1, 2, 4, 3, 3),
        kernel(RELU_, 3, 3, 3),
        inputs=[0],
        outputs=[3],
    )
    assert lives(found) == {
        0: (0, 0, "input"),
        1: (0, 2, "value"),
        2: (1, 2, "value"),
        3: (2, 3, "output"),
        5: (-1, -1, "unused"),
    }
    assert [(v.offset, v.end, v.nbytes, v.type) for v in found.values()][1] == (
        16,
        32,
        16,
        "float32[4]",
    )


def test_results_live_to_the_end_and_inputs_from_the_beginning():
    found = planned(
        [at(0), at(16), at(32), at(48)],
        kernel(RELU_, 1, 2, 2),
        kernel(RELU_, 0, 3, 3),
        kernel(RELU_, 3, 3, 3),
        inputs=[0, 1],
        outputs=[2],
    )
    assert lives(found)[0] == (0, 1, "input")
    assert lives(found)[2] == (0, 2, "output")


def test_views_have_the_bytes_of_what_was_written_before():
    found = planned(
        [at(0), at(16), at(16), at(32), at(16), at(48)],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 0, 5, 5),
        kernel(RELU_, 2, 3, 3),
        kernel(RELU_, 5, 4, 4),
        inputs=[0],
        outputs=[3, 4],
    )
    assert lives(found)[2] == (0, 2, "view")
    assert found[2].bases == (1,)
    assert (found[4].role, found[4].bases) == ("output", ())  # it is written itself


def test_a_view_of_an_input():
    found = planned([at(0), at(0), at(16)], kernel(RELU_, 1, 2, 2), inputs=[0], outputs=[2])
    assert (lives(found)[1], found[1].bases) == ((0, 0, "view"), (0,))


def test_a_result_that_is_a_view():
    found = planned(
        [at(0), at(16), at(16)],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 0, 0, 0),
        inputs=[0],
        outputs=[2],
    )
    assert (lives(found)[2], found[2].bases) == ((0, 1, "output"), (1,))


def test_views_made_by_an_instruction_keep_what_they_show():
    found = planned(
        [at(0), at(16), {"val": ("IntList", {"items": []})}, at(16), at(32)],
        kernel(RELU_, 0, 1, 1),
        kernel(VIEW_, 1, 2, 3, 3),
        kernel(RELU_, 0, 0, 0),
        kernel(RELU_, 3, 4, 4),
        inputs=[0],
        outputs=[4],
    )
    assert lives(found)[1] == (0, 3, "value")
    assert (lives(found)[3], found[3].bases) == ((1, 3, "view"), (1,))


def test_what_a_loop_names_lives_all_through_it():
    found = planned(
        [at(0), at(16), at(32), at(48), at(64), {"val": ("Bool", {})}, at(80)],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 1, 2, 2),
        kernel(RELU_, 2, 3, 3),
        jump(5, 1),
        kernel(RELU_, 3, 4, 4),
        kernel(RELU_, 4, 6, 6),
        inputs=[0],
        outputs=[6],
    )
    assert lives(found) == {
        0: (0, 0, "input"),
        1: (0, 3, "value"),
        2: (1, 3, "value"),
        3: (1, 4, "value"),
        4: (4, 5, "value"),
        6: (5, 5, "output"),
    }


def test_loops_inside_of_loops_are_one():
    found = planned(
        [at(0), at(16), at(32), {"val": ("Bool", {})}],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 0, 0, 0),
        kernel(RELU_, 1, 2, 2),
        jump(3, 2),
        jump(3, 1),
        kernel(RELU_, 0, 0, 0),
        inputs=[0],
    )
    assert lives(found)[2] == (1, 4, "value")
    assert lives(found)[1] == (0, 4, "value")


def test_moves_keep_what_they_hand_on():
    found = planned(
        [at(0), at(16), at(32), {"val": ("Bool", {})}, at(48), at(64)],
        jump(3, 4),
        kernel(RELU_, 0, 1, 1),
        move(1, 2),
        jump(3, 6),
        kernel(RELU_, 0, 4, 4),
        move(4, 2),
        kernel(RELU_, 2, 5, 5),
        kernel(RELU_, 5, 5, 5),
        inputs=[0],
        outputs=[5],
    )
    assert lives(found)[1] == (1, 6, "value")
    assert lives(found)[4] == (4, 6, "value")
    assert set(found[2].bases) == {1, 4}


def test_state_is_kept():
    """Values with bytes of their own, or a name, and those that nothing writes."""
    found = planned(
        [
            at(0),
            at(16, extra_tensor_info={"fully_qualified_name": "count"}),
            at(32),
            at(48),
        ],
        kernel(RELU_, 0, 3, 3),
        kernel(ADD_, 1, 2, 3, 3),
        kernel(RELU_, 3, 3, 3),
        inputs=[0],
        outputs=[3],
    )
    assert lives(found)[1] == lives(found)[2] == (0, 2, "state")
    assert found[1].name == "count"


def test_lists_name_what_they_hold():
    found = planned(
        [at(0), at(16), at(32), {"val": ("TensorList", {"items": [1, 2]})}],
        kernel(ADD_, 0, 1, 2, 3),
        kernel(RELU_, 3, 0, 0),
        inputs=[0],
    )
    assert lives(found)[1] == lives(found)[2] == (0, 1, "value")


def test_chains_are_counted_through():
    values = [at(0), at(16), at(32), {"val": ("Bool", {})}]
    chains = [*chain(kernel(RELU_, 0, 1, 1)), *chain(kernel(RELU_, 1, 2, 2), jump(3, 0))]
    method = plan("forward", values=values, operators=OPERATORS, chains=chains, inputs=[0],
                  outputs=[2], non_const_buffer_sizes=[0, 64])  # fmt: skip
    with opened(program({"execution_plan": [method]})) as archive:
        found = plan_of(archive.executorch.program.method("forward"))
    assert found.instructions == 3
    assert {v.index: (v.first, v.last) for v in found.values} == {0: (0, 0), 1: (0, 2), 2: (1, 2)}


def test_values_that_are_not_there_are_left_out():
    found = planned(
        [at(0), at(16)],
        kernel(RELU_, 0, 9, 9),
        kernel(VIEW_, 7, 8, -3, -3),
        kernel(9, 0),
        move(0, 12),
        move(-4, 1),
        jump(77, 0),
        jump(0, 50),
        inputs=[0, 5],
        outputs=[1, 6],
    )
    assert lives(found) == {0: (0, 6, "input"), 1: (0, 6, "output")}


@pytest.mark.long("test_lists_name_what_they_hold")
def test_names_beyond_counting_are_refused():
    values = [at(0), {"val": ("TensorList", {"items": [0] * 100_000})}]
    data = bytes_of(values, *[kernel(RELU_, 1, 0, 0)] * 60)
    with opened(data) as archive, pytest.raises(LimitError, match="too many values"):
        Uses(archive.executorch.program.method("forward"))
    assert "too many values" in read(tsarchive.report(io.BytesIO(data)).html).by_id("memory").text


# The picture


def boxes(page):
    """Where each value is drawn: x, y, width, height."""
    return {
        int(box["data-value"]): tuple(
            float(box.one("rect")[side]) for side in ("x", "y", "width", "height")
        )
        for box in page.one("svg", "plan").all("g", "box")
    }


def test_boxes_lie_at_their_instructions_and_bytes():
    data = bytes_of(
        [at(0), at(16), at(48)],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 1, 2, 2),
        inputs=[0],
        outputs=[2],
        arenas=(0, 64),
    )
    page = read(tsarchive.report(io.BytesIO(data)).html)
    left, top, width, height = 84, 8, 1000, 360
    assert boxes(page) == {
        0: (left, top + height * 0.75, width / 2, height / 4),
        1: (left, top + height * 0.5, width, height / 4),
        2: (left + width / 2, top, width / 2, height / 4),
    }
    titles = {int(b["data-value"]): b.one("title").text for b in page.all("g", "box")}
    assert titles[1].split("\n") == [
        "%1 float32[4]",
        "value, 16 bytes at 16",
        "from 0: aten::relu.out(%0, %1, %1)",
        "to 1: aten::relu.out(%1, %2, %2)",
    ]
    assert page.by_id("table-memory-0").one("tbody").all("tr")[1].text.startswith("%1float32[4]")


def test_methods_beyond_the_rows_are_counted():
    method = {
        "values": [at(0), at(16)],
        "operators": OPERATORS,
        "inputs": [0],
        "outputs": [1],
        "chains": chain(kernel(RELU_, 0, 1, 1)),
        "non_const_buffer_sizes": [0, 32],
    }
    data = program({"execution_plan": [plan(name, **method) for name in "abc"]})
    made = tsarchive.report(io.BytesIO(data), rows=3)
    (section,) = [section for section in made.sections if section.name == "memory"]
    assert (section.shown, section.total) == (3, 6)
    memory = read(made.html).by_id("memory")
    assert [heading.text for heading in memory.all("h3")] == ["a", "b"]
    assert [p.text for p in memory.all("p", "more")] == [
        "and 1 more value, none of which is larger",
        "and 1 more method",
    ]


def test_arenas_are_drawn_apart():
    data = bytes_of(
        [at(0), at(0, arena=2), at(16, arena=3)],
        kernel(RELU_, 0, 1, 1),
        kernel(RELU_, 1, 2, 2),
        inputs=[0],
        arenas=(0, 16, 16, 16),
    )
    memory = read(tsarchive.report(io.BytesIO(data)).html).by_id("memory")
    captions = [caption.text for caption in memory.all("figcaption")]
    assert captions == [f"Arena {n} of forward: 16 bytes for 1 value" for n in (1, 2, 3)]
    assert [p.text for p in memory.all("p", "problem")] == ["Beyond the end of the arena: 1 value"]


@pytest.mark.sample(1, gaps="hundreds of programs take seconds, and bundles hold such")
@pytest.mark.parametrize("kind", ["pte", "bpte"])
def test_programs_of_the_corpus(corpus, kind):
    """Every planned value is drawn inside of its picture, over all instructions that name it."""
    for path in sound_files(corpus, kind):
        with tsarchive.open(path) as archive:
            methods = archive.executorch.program.methods
        plans = [plan_of(method) for method in methods]
        for method, found in zip(methods, plans, strict=True):
            placed = [v for v in method.values if isinstance(v, Tensor) and v.allocation]
            assert len(found.values) == len(placed)
            spans = {value.index: value for value in found.values}
            named = [call.args for made in method.chains for call in made.instructions
                     if isinstance(call, KernelCall)]  # fmt: skip
            if len(method.chains) == 1 and len(named) == found.instructions:
                for place, args in enumerate(named):
                    for index in args:
                        value = spans.get(index)
                        assert value is None or value.first <= place <= value.last
        page = read(tsarchive.report(path).html)
        for svg in page.all("svg", "plan"):
            for rect in svg.all("rect"):
                x, y, width, height = (float(rect[s]) for s in ("x", "y", "width", "height"))
                assert 84 <= x <= x + width <= 1086
                assert 7 <= y <= y + height <= 370


def test_programs_without_a_plan_have_no_picture():
    assert "memory" not in [s.name for s in tsarchive.report(FIXTURES / "data.ptd").sections]
