"""Edits of one program, data file or bundle of ExecuTorch."""

from __future__ import annotations

import numpy
import pytest

from fixtures.executorch_samples import (
    BIAS,
    FILES,
    LINEAR,
    LINEAR_DATA,
    WEIGHT,
    data_file,
    linear,
    plan,
    program,
    tensor,
)
from tests.executorch.drafts import (
    NEW_BIAS,
    NEW_WEIGHT,
    bytes_of,
    draft_of,
    entries_of,
    fixture,
    reopened,
    written,
)
from tests.support.executorch_files import opened
from tsarchive.errors import CallError, MissingRecordError, UnsupportedError
from tsarchive.executorch import Draft


class TestReplacing:
    def test_bytes(self):
        draft = fixture("linear.pte")
        draft.replace("forward.0", NEW_BIAS)
        assert bytes_of(reopened(draft)) == {"forward.0": NEW_BIAS, "forward.2": WEIGHT}

    def test_arrays(self):
        draft = fixture("linear.pte")
        weight = numpy.arange(12, 24, dtype="float32").reshape(3, 4).T
        assert not weight.flags.c_contiguous
        draft.replace("forward.2", weight)
        found = bytes_of(reopened(draft))["forward.2"]
        assert found == numpy.ascontiguousarray(weight).tobytes()

    def test_arrays_stand_in_the_order_of_memory(self):
        draft = fixture("data.ptd")
        array = numpy.arange(12, dtype="float32").reshape(4, 3)
        draft.replace("tied", array)
        assert entries_of(reopened(draft))["tied"] == array.T.tobytes()

    @pytest.mark.parametrize(
        ("dtype", "scalar_type"),
        [("float64", 7), ("float16", 5), ("int64", 4), ("int32", 3), ("int16", 2), ("int8", 1),
         ("uint8", 0), ("bool", 11), ("uint16", 27), ("uint32", 28), ("uint64", 29)],
    )  # fmt: skip
    @pytest.mark.parametrize("sizes", [[2, 2], []])
    def test_every_dtype(self, dtype, scalar_type, sizes):
        data = bytes(8 * (4 if sizes else 1))
        values = {"execution_plan": [plan("f", values=[tensor(sizes, scalar_type, data=1)])],
                  "segments": [{"offset": 0, "size": len(data)}],
                  "constant_segment": {"segment_index": 0, "offsets": [0, 0]}}  # fmt: skip
        draft = draft_of(program(values, data))
        array = numpy.ones(sizes, dtype)
        draft.replace("f.0", array)
        assert bytes_of(opened(written(draft)))["f.0"] == array.tobytes()

    def test_those_that_share_the_bytes_keep_them(self):
        values = [tensor([3], data=1), tensor([3], data=1), tensor([3], data=1)]
        first = program({**LINEAR, "execution_plan": [plan("f", values=values)]}, LINEAR_DATA)
        draft = draft_of(first)
        draft.replace("f.1", NEW_BIAS)
        assert bytes_of(reopened(draft)) == {"f.0": BIAS, "f.1": NEW_BIAS, "f.2": BIAS}
        draft.replace("f.1", BIAS[::-1])
        draft.replace("f.0", NEW_BIAS)
        found = bytes_of(reopened(draft))
        assert found == {"f.0": NEW_BIAS, "f.1": BIAS[::-1], "f.2": BIAS}

    def test_tensors_of_one_name_are_one(self):
        named = {"extra_tensor_info": {"fully_qualified_name": "b"}}
        plans = [plan(name, values=[tensor([3], data=1, **named)]) for name in ("f", "g")]
        draft = draft_of(program({**LINEAR, "execution_plan": plans}, LINEAR_DATA))
        draft.replace("b", NEW_BIAS)
        found = reopened(draft).executorch.program
        assert [found.initial_data(method.values[0]) for method in found.methods] == [NEW_BIAS] * 2

    def test_what_buffers_begin_with(self):
        draft = fixture("state.pte")
        draft.replace("count", NEW_BIAS)
        assert bytes_of(reopened(draft)) == {
            "count": NEW_BIAS, "net.weight": None, "step.2": BIAS,
        }  # fmt: skip

    def test_inline_constants(self):
        draft = fixture("inline.pte")
        draft.replace("forward.2", NEW_WEIGHT)
        assert bytes_of(reopened(draft)) == {"forward.0": BIAS, "forward.2": NEW_WEIGHT}

    def test_entries_of_data_files(self):
        draft = fixture("data.ptd")
        draft.replace("net.weight", NEW_WEIGHT)
        draft.replace("opaque", b"HELLO")
        assert entries_of(reopened(draft)) == {
            "net.weight": NEW_WEIGHT, "tied": WEIGHT, "opaque": b"HELLO",
        }  # fmt: skip

    def test_tensors_of_calls(self):
        draft = fixture("linear.bpte")
        name = "test_suites/forward/0/inputs/0"
        draft.replace(name, bytes(range(32)))
        draft.replace("forward.0", NEW_BIAS)
        archive = reopened(draft)
        assert archive.read(name) == bytes(range(32))
        assert bytes_of(archive)["forward.0"] == NEW_BIAS

    @pytest.mark.parametrize(
        ("name", "data", "error", "message"),
        [
            ("forward.0", bytes(11), CallError, "has 12 bytes, not 11"),
            ("forward.0", [1.0, 2.0, 3.0], CallError, "cannot be replaced by a list"),
            ("forward.0", numpy.zeros(3), CallError, "is float32, the array float64"),
            ("forward.0", numpy.zeros(3, ">f4"), CallError, "of format '>f'"),
            ("forward.0", numpy.zeros((3, 1), "f"), CallError, r"sizes \(3,\), the array \(3, 1\)"),
            ("forward.9", BIAS, MissingRecordError, "no tensor 'forward.9'"),
            ("forward.1", bytes(32), MissingRecordError, "no tensor 'forward.1'"),
        ],
    )
    def test_what_does_not_fit_is_told_and_changes_nothing(self, name, data, error, message):
        draft = fixture("linear.pte")
        with pytest.raises(error, match=message):
            draft.replace(name, data)
        assert written(draft) == FILES["linear.pte"]()

    def test_bytes_in_a_data_file_are_not_replaced_here(self):
        with pytest.raises(UnsupportedError, match="in a data file"):
            fixture("state.pte").replace("net.weight", WEIGHT)

    def test_what_can_be_replaced_is_listed(self):
        assert list(fixture("state.pte").tensors) == ["count", "step.2"]
        assert fixture("data.ptd").tensors["opaque"] is None
        layout = fixture("linear.bpte").tensors["test_suites/forward/0/expected_outputs/0"]
        assert (layout.dtype, layout.sizes) == ("float32", (2, 3))


class TestRenaming:
    @pytest.mark.parametrize("name", ["data.ptd", "data_06.ptd"])
    def test_keys(self, name):
        draft = fixture(name)
        old = next(iter(draft.tensors))
        draft.rename(old, "the new one")
        archive = opened(written(draft))
        assert next(iter(archive.tensors)) == "the new one"
        assert archive.executorch.regions.content.is_of_06 == (name == "data_06.ptd")

    def test_tensors(self):
        draft = fixture("state.pte")
        draft.rename("net.weight", "net.w")
        draft.rename("step.2", "start")
        assert list(bytes_of(reopened(draft))) == ["count", "net.w", "start"]

    @pytest.mark.parametrize("name", ["state.pte", "data.ptd"])
    def test_names_that_are_taken_or_nowhere(self, name):
        draft = fixture(name)
        first, second = list(draft.tensors)[:2]
        with pytest.raises(CallError, match="already"):
            draft.rename(first, second)
        with pytest.raises(MissingRecordError, match="'nothing'"):
            draft.rename("nothing", "else")
        assert not draft.is_edited

    @pytest.mark.parametrize("new", ["", "a\0b", "\udcff"])
    def test_what_is_no_name(self, new):
        draft = fixture("data.ptd")
        with pytest.raises(CallError, match="no name of a tensor"):
            draft.rename("tied", new)
        assert not draft.is_edited

    def test_names_are_of_any_letters(self):
        draft = fixture("data.ptd")
        draft.rename("tied", "gewicht/Größe 重み")
        assert "gewicht/Größe 重み" in entries_of(reopened(draft))

    def test_keys_of_backends_stay(self):
        with pytest.raises(MissingRecordError, match="no tensor 'blob'"):
            fixture("state.pte").rename("blob", "other")


class TestStripping:
    def test_all(self):
        draft = fixture("state.pte")
        assert draft.strip() == ["stack-traces", "names"]
        archive = reopened(draft)
        found = archive.executorch.program.method("step")
        assert found.chains[0].frames == ()
        assert [value.name for value in found.values] == [None, "net.weight", None]

    def test_one(self):
        draft = fixture("state.pte")
        assert draft.strip("names") == ["names"]
        assert reopened(draft).executorch.program.method("step").chains[0].frames

    def test_nothing_to_strip(self):
        draft = fixture("linear.pte")
        assert draft.strip() == []
        assert not draft.is_edited

    def test_calls_of_a_bundle(self):
        draft = fixture("linear.bpte")
        assert Draft.strip(draft, "test-suites") == ["test-suites"]
        found = reopened(draft).executorch.regions.content
        assert found.test_suites == ()
        assert found.program.data == FILES["linear.pte"]()

    def test_what_is_not_known_is_told(self):
        with pytest.raises(CallError, match="'weights' is none of stack-traces, names"):
            fixture("linear.pte").strip("weights")
        with pytest.raises(UnsupportedError, match="no program"):
            fixture("data.ptd").strip()


class TestAligning:
    @pytest.mark.parametrize("width", [16, 256, 4096])
    @pytest.mark.parametrize("name", ["state.pte", "data.ptd", "data_06.ptd"])
    def test_segments(self, name, width):
        draft = fixture(name)
        draft.align(width)
        archive = opened(written(draft))
        found = archive.executorch.regions.content
        assert all(start % width == 0 for start, _ in found.segments)
        before = opened(FILES[name]()).executorch.regions.content
        assert [len(found.data[at : at + n]) for at, n in found.segments] == [
            n for _, n in before.segments
        ]

    def test_constants(self):
        draft = fixture("linear.pte")
        draft.align(constants=256)
        archive = reopened(draft)
        found = archive.executorch.program
        assert found.constants.offsets == (0, 0, 256)
        assert found.segments[0].start % 256 == 0
        assert bytes_of(archive) == {"forward.0": BIAS, "forward.2": WEIGHT}

    def test_inline_constants(self):
        draft = fixture("inline.pte")
        draft.align(constants=256)
        places = reopened(draft).executorch.program.inline_constants
        assert [start % 256 for start, _ in places] == [0, 0, 0]

    def test_programs_without_constants_get_none(self):
        draft = fixture("values.pte")
        before = Draft.pieces(draft, anew=True).join()
        draft.align(64, 64)
        assert written(draft) == before

    @pytest.mark.parametrize("width", [0, -16, 8, 24, 1 << 21])
    def test_what_is_no_alignment(self, width):
        for kind in ("segments", "constants"):
            with pytest.raises(CallError, match="power of two"):
                fixture("linear.pte").align(**{kind: width})

    def test_data_files_have_no_constants(self):
        with pytest.raises(CallError, match="segments are aligned"):
            fixture("data.ptd").align(constants=32)


class TestUpgrading:
    def test_inline_constants_go_to_a_segment(self):
        draft = fixture("inline.pte")
        assert draft.upgrade()
        archive = reopened(draft)
        assert archive.executorch.program.inline_constants == ()
        assert bytes_of(archive) == {"forward.0": BIAS, "forward.2": WEIGHT}
        assert not Draft(archive).upgrade()

    def test_headers_get_32_bytes(self):
        draft = fixture("linear_24.pte")
        assert draft.upgrade()
        header = reopened(draft).executorch.program.header
        assert (header.length, header.segments_size) == (32, len(LINEAR_DATA))

    def test_data_files_get_the_tables_of_today(self):
        draft = fixture("data_06.ptd")
        before = entries_of(opened(FILES["data_06.ptd"]()))
        assert draft.upgrade()
        archive = reopened(draft)
        assert not archive.executorch.regions.content.is_of_06
        assert entries_of(archive) == before

    @pytest.mark.parametrize("name", ["linear.pte", "data.ptd", "linear.bpte"])
    def test_files_of_today_stay_as_they_are(self, name):
        draft = fixture(name)
        assert not draft.upgrade()
        assert written(draft) == FILES[name]()

    def test_old_data_files_are_upgraded_before_other_edits(self):
        draft = fixture("data_06.ptd")
        with pytest.raises(UnsupportedError, match="upgrade"):
            draft.replace("a", NEW_BIAS)
        draft.upgrade()
        draft.replace("a", NEW_BIAS)
        assert entries_of(reopened(draft))["a"] == NEW_BIAS


class TestBundles:
    def test_the_program_alone(self):
        draft = fixture("linear.bpte")
        assert written(draft.program) == FILES["linear.pte"]()

    def test_edits_reach_the_program_in_it(self):
        draft = fixture("linear.bpte")
        data = draft.externalize(["forward.0"])
        draft.align(4096)
        draft.rename("forward.2", "weight")
        archive = reopened(draft)
        assert bytes_of(archive) == {"forward.0": None, "weight": WEIGHT}
        assert written(draft.program) == archive.read("program")
        assert entries_of(reopened(data)) == {"forward.0": BIAS}

    def test_edits_of_the_program_reach_the_bundle(self):
        draft = fixture("linear.bpte")
        program = draft.program
        program.rename("forward.2", "weight")
        assert draft.is_edited
        assert reopened(draft).read("program") == written(program)

    def test_other_files_hold_no_other(self):
        of_bundle = fixture("linear.bpte").externalize()
        for draft in (fixture("linear.pte"), fixture("data.ptd"), of_bundle):
            with pytest.raises(UnsupportedError, match="only bundled programs"):
                _ = draft.program


def test_a_segment_that_others_use_is_left_to_them():
    """Constants and what buffers begin with in one segment: no writer does it, readers take it."""
    values = [tensor([3], data=1), tensor([3], data=1, at=(1, 0))]
    made = plan("f", values=values, non_const_buffer_sizes=[0, 16])
    shared = {**LINEAR, "execution_plan": [made],
              "mutable_data_segments": [{"segment_index": 0, "offsets": [0, 0]}]}  # fmt: skip
    draft = draft_of(program(shared, LINEAR_DATA))
    draft.replace("f.0", NEW_BIAS)
    assert bytes_of(reopened(draft)) == {"f.0": NEW_BIAS, "f.1": BIAS}


def test_segments_that_overlap_are_told_apart():
    """No writer does it; each has its own bytes when they are written."""
    parts = [{"offset": 0, "size": 60}, {"offset": 16, "size": 12}]
    draft = draft_of(program({**LINEAR, "segments": parts}, LINEAR_DATA + b"more"))
    draft.rename("forward.0", "bias")
    archive = opened(written(draft))
    assert archive.read("segments/0") == LINEAR_DATA[:60]
    assert archive.read("segments/1") == LINEAR_DATA[16:28]


def test_names_that_two_tensors_have_otherwise_go_by_their_places():
    named = {"extra_tensor_info": {"fully_qualified_name": "b"}}
    values = [tensor([3], data=1, **named), tensor([4, 3], data=2, **named)]
    draft = draft_of(program({**LINEAR, "execution_plan": [plan("f", values=values)]}, LINEAR_DATA))
    assert list(draft.tensors) == ["b", "f.1"]
    draft.replace("f.1", NEW_WEIGHT)
    assert reopened(draft).read("segments/0") == BIAS + bytes(4) + NEW_WEIGHT


def test_linear_is_what_the_tests_take_it_for():
    assert linear()["name"] == "forward"
    assert data_file({"segments": [], "named_data": []}, b"")[4:12] == b"FT01FH01"
