"""Tensors that move between programs and data files of ExecuTorch, or between data files."""

from __future__ import annotations

import io

import pytest

import tsarchive
from fixtures.executorch_samples import (
    ADD,
    BIAS,
    EXTERNAL,
    FILES,
    FLOAT,
    LINEAR,
    LINEAR_DATA,
    LONG,
    WEIGHT,
    number,
    plan,
    program,
    tensor,
)
from tests.executorch.drafts import (
    NEW_WEIGHT,
    bytes_of,
    draft_of,
    entries_of,
    fixture,
    reopened,
    written,
)
from tests.support.executorch_files import opened
from tsarchive.errors import CallError, FormatError, MissingRecordError, UnsupportedError
from tsarchive.executorch import Draft, write_together


class TestExternalizing:
    def test_all_constants(self):
        draft = fixture("linear.pte")
        data = draft.externalize()
        archive, other = reopened(draft), reopened(data)
        assert bytes_of(archive) == {"forward.0": None, "forward.2": None}
        assert entries_of(other) == {"forward.0": BIAS, "forward.2": WEIGHT}
        assert archive.executorch.program.header is None
        assert other.executorch.regions.content.by_key["forward.2"].layout.sizes == (4, 3)

    def test_some(self):
        draft = fixture("linear.pte")
        data = draft.externalize(["forward.0"])
        assert entries_of(reopened(data)) == {"forward.0": BIAS}
        archive = reopened(draft)
        assert bytes_of(archive) == {"forward.0": None, "forward.2": WEIGHT}
        assert archive.read("segments/0") == WEIGHT

    def test_names_come_first(self):
        draft = fixture("linear.pte")
        draft.rename("forward.2", "linear.weight")
        assert entries_of(reopened(draft.externalize(["linear.weight"]))) == {
            "linear.weight": WEIGHT
        }
        assert bytes_of(reopened(draft)) == {"forward.0": BIAS, "linear.weight": None}

    def test_what_buffers_begin_with_and_what_backends_read(self):
        draft = fixture("state.pte")
        data = draft.externalize(["count", "blob"])
        assert entries_of(reopened(data)) == {"count": BIAS, "blob": bytes(range(32))}
        archive = reopened(draft)
        found = archive.executorch.program
        assert bytes_of(archive) == {"count": None, "net.weight": None, "step.2": BIAS}
        assert found.mutable_data == ()
        assert [entry.key for entry in found.entries] == ["again"]
        # The segment of constants and that of the delegate, which has another number now.
        assert len(found.segments) == 2
        assert found.delegate_data(found.method("step").delegates[0]) == bytes(range(32))

    def test_shared_bytes_are_shared_there(self):
        values = [tensor([3], data=1), tensor([3], data=1), tensor([1, 3], data=1)]
        draft = draft_of(
            program({**LINEAR, "execution_plan": [plan("f", values=values)]}, LINEAR_DATA)
        )
        other = reopened(draft.externalize())
        assert entries_of(other) == dict.fromkeys(("f.0", "f.1", "f.2"), BIAS)
        assert len(other.executorch.regions.content.segments) == 1

    def test_to_a_data_file_that_is_there(self):
        data = fixture("data.ptd")
        draft = fixture("linear.pte")
        assert draft.externalize(["forward.0"], data) is data
        assert list(entries_of(reopened(data))) == ["net.weight", "tied", "opaque", "forward.0"]

    def test_nothing_to_move(self):
        with pytest.raises(CallError, match="nothing to move"):
            fixture("add.pte").externalize()

    @pytest.mark.parametrize(
        ("names", "error", "message"),
        [
            (["net.weight"], CallError, "in a data file already"),
            (["count", "nothing"], MissingRecordError, "no tensor 'nothing'"),
        ],
    )
    def test_what_cannot_be_moved_changes_nothing(self, names, error, message):
        draft = fixture("state.pte")
        with pytest.raises(error, match=message):
            draft.externalize(names)
        assert written(draft) == FILES["state.pte"]()

    def test_a_key_with_other_bytes_changes_nothing(self):
        data = fixture("data.ptd")
        draft = fixture("linear.pte")
        draft.rename("forward.0", "tied")
        before = written(draft)
        with pytest.raises(CallError, match="both files have 'tied', and not the same"):
            draft.externalize(["tied"], data)
        assert (written(draft), written(data)) == (before, FILES["data.ptd"]())

    def test_data_files_have_no_program(self):
        with pytest.raises(UnsupportedError, match="no program"):
            fixture("data.ptd").externalize()
        with pytest.raises(UnsupportedError, match="no data file"):
            fixture("linear.pte").externalize(None, fixture("add.pte"))


def net(sizes=(4, 3), scalar_type=FLOAT, order=None):
    """A program that takes ``net.weight`` from a data file."""
    extra = {"fully_qualified_name": "net.weight", "location": EXTERNAL}
    order = list(range(len(sizes))) if order is None else order
    one = tensor(list(sizes), scalar_type, extra_tensor_info=extra, dim_order=order)
    return program({**ADD, "execution_plan": [plan("f", values=[number(1), one])]})


class TestInternalizing:
    def test_tensors_and_what_backends_read(self):
        draft = draft_of(net())
        assert draft.internalize(opened(FILES["data.ptd"]())) == ["net.weight", "opaque"]
        archive = reopened(draft)
        assert bytes_of(archive) == {"net.weight": WEIGHT}
        assert archive.read("named_data/opaque") == b"hello"
        assert archive.executorch.program.header.length == 32

    def test_there_and_back(self):
        for name in ("linear.pte", "inline.pte", "state.pte", "linear.bpte"):
            draft = fixture(name)
            before = bytes_of(opened(written(draft)))
            data = reopened(draft.externalize())
            back = Draft(reopened(draft))
            back.internalize(data)
            assert bytes_of(reopened(back)) == before

    def test_what_buffers_begin_with(self):
        draft = fixture("state.pte")
        data = reopened(draft.externalize(["count"]))
        back = Draft(reopened(draft))
        assert back.internalize(data, ["count"]) == ["count"]
        found = reopened(back).executorch.program
        assert found.initial_data(found.method("step").values[0]) == BIAS
        assert len(found.mutable_data) == 1

    def test_entries_that_share_bytes_share_them_here(self):
        draft = fixture("linear.pte")
        draft.rename("forward.0", "a")
        data = draft.externalize()
        values = [
            tensor([3], extra_tensor_info={"fully_qualified_name": name, "location": EXTERNAL})
            for name in ("a", "b")
        ]
        other = reopened(data)
        second = draft_of(program({**ADD, "execution_plan": [plan("f", values=values)]}))
        with pytest.raises(MissingRecordError, match="has no 'b'"):
            second.internalize(other, ["a", "b"])
        assert not second.is_edited
        assert second.internalize(other) == ["a"]
        assert bytes_of(reopened(second)) == {"a": BIAS, "b": None}

    @pytest.mark.parametrize(
        "made",
        [net(sizes=(3, 4)), net(scalar_type=LONG), net(order=[1, 0])],
        ids=["sizes", "dtype", "order"],
    )
    def test_tensors_that_are_otherwise_there_are_told(self, made):
        draft = draft_of(made)
        with pytest.raises(FormatError, match=r"'net.weight' is .* in the program, and"):
            draft.internalize(opened(FILES["data.ptd"]()), ["net.weight"])
        assert not draft.is_edited

    def test_what_the_program_has_itself_is_told(self):
        draft = fixture("state.pte")
        data = reopened(fixture("state.pte").externalize(["count", "blob"]))
        for name in ("count", "blob"):
            with pytest.raises(CallError, match=r"the program has .*itself"):
                draft.internalize(data, [name])
        assert not draft.is_edited

    def test_a_data_file_that_was_refused_need_not_stay_open(self):
        draft, other = fixture("linear.pte"), opened(FILES["data.ptd"]())
        with pytest.raises(MissingRecordError):
            draft.internalize(other, ["net.weight"])
        other.close()
        assert written(draft) == FILES["linear.pte"]()

    def test_only_data_files_are_taken(self):
        with pytest.raises(UnsupportedError, match="a pte file is no data file"):
            fixture("linear.pte").internalize(opened(FILES["add.pte"]()))

    def test_bytes_behind_tables_stay_there(self):
        draft = draft_of(Draft(opened(net())).pieces(anew=True).join() + b"signature")
        draft.internalize(opened(FILES["data.ptd"]()), ["net.weight"])
        (found,) = tsarchive.verify(io.BytesIO(written(draft))).findings
        assert found.rule == "executorch-rest"
        archive = opened(written(draft))
        assert archive.read("program").endswith(b"signature")
        assert Draft(archive).pieces(anew=True).join() == written(draft)


class TestMerging:
    def test_all_entries(self):
        draft = fixture("data.ptd")
        other = fixture("linear.pte").externalize()
        draft.merge(reopened(other))
        assert entries_of(reopened(draft)) == {
            "net.weight": WEIGHT, "tied": WEIGHT, "opaque": b"hello",
            "forward.0": BIAS, "forward.2": WEIGHT,
        }  # fmt: skip

    def test_shared_segments_stay_shared(self):
        draft = fixture("linear.pte").externalize()
        draft.merge(opened(FILES["data.ptd"]()))
        assert len(reopened(draft).executorch.regions.content.segments) == 4

    def test_of_the_same_entry_there_is_one(self):
        draft = fixture("data.ptd")
        draft.merge(opened(FILES["data.ptd"]()))
        assert entries_of(reopened(draft)) == entries_of(opened(FILES["data.ptd"]()))

    def test_two_of_a_name_change_nothing(self):
        draft, other = fixture("data.ptd"), fixture("data.ptd")
        other.rename("net.weight", "first")
        other.replace("tied", NEW_WEIGHT)
        with pytest.raises(CallError, match="'tied'"):
            draft.merge(reopened(other))
        assert written(draft) == FILES["data.ptd"]()

    def test_old_data_files_can_be_merged_into_new_ones(self):
        draft = fixture("data.ptd")
        draft.merge(opened(FILES["data_06.ptd"]()))
        assert entries_of(reopened(draft))["b"] == WEIGHT[:32]

    def test_nothing_is_merged_into_old_ones_or_programs(self):
        other = opened(FILES["data.ptd"]())
        with pytest.raises(UnsupportedError, match=r"0\.6.*upgrade"):
            fixture("data_06.ptd").merge(other)
        with pytest.raises(UnsupportedError, match="no data file"):
            fixture("linear.pte").merge(other)


def constant_here_and_buffer_there():
    """Two methods with one tensor of a data file, which only the second changes."""
    values = [tensor([4, 3], data=1, extra_tensor_info=EXTERNAL_WEIGHT),
              tensor([4, 3], data=2, at=(1, 0), extra_tensor_info=EXTERNAL_WEIGHT)]  # fmt: skip
    sizes = {"non_const_buffer_sizes": [0, 48]}
    plans = [plan(name, values=[value], **sizes) for name, value in zip("fg", values, strict=True)]
    return program({"execution_plan": plans}, b"")


EXTERNAL_WEIGHT = {"fully_qualified_name": "net.weight", "location": EXTERNAL}


def test_a_data_file_gives_one_tensor_to_a_constant_and_to_a_buffer():
    draft = draft_of(constant_here_and_buffer_there())
    assert draft.internalize(opened(FILES["data.ptd"]()))[0] == "net.weight"
    assert list(draft.tensors) == ["net.weight", "g.0"]
    archive = reopened(draft)
    for method in archive.executorch.program.methods:
        assert archive.executorch.program.initial_data(method.values[0]) == WEIGHT


def test_a_constant_and_a_buffer_of_one_key_are_renamed_together():
    draft = draft_of(constant_here_and_buffer_there())
    draft.rename("net.weight", "new")
    methods = reopened(draft).executorch.program.methods
    assert [method.values[0].name for method in methods] == ["new", "new"]


def test_files_are_written_together_to_different_places(tmp_path):
    draft = fixture("linear.pte")
    data = draft.externalize()
    path = tmp_path / "a"
    with pytest.raises(CallError, match="two files"):
        write_together([(draft, path), (data, f"{tmp_path}/./a")])
    assert not path.exists()
