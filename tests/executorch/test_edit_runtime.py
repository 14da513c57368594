"""Edited programs run in the runtime of ExecuTorch as those that they were made from."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS
from tsarchive.executorch import Draft, write_together
from tsarchive.formats.executorch.methods import Tensor

runtime = pytest.importorskip(
    "executorch.runtime", reason="the runtime of ExecuTorch is not installed"
)
GENERATED = CORPUS / "generated"


def programs():
    """Programs with recorded calls that the runtime takes; those with data beside them, with it."""
    found = sorted(GENERATED.glob("*.pte")) if GENERATED.is_dir() else []
    recorded = [path for path in found if path.with_suffix(".io.pt").exists()]
    return [path for path in recorded if path.stem not in _REFUSED and len(data_of(path)) < 2]


# Older programs than it takes, and one that needs two data files, of which it takes one.
_REFUSED = {"legacy_inline", "cnn_channels_last"}


def data_of(path):
    return sorted(path.parent.glob(f"{path.stem}__*.ptd"))


def results(path, data_path, calls):
    """What each recorded call gives."""
    program = runtime.Runtime.get().load_program(path, data_path=data_path)
    return {
        name: [
            [
                output.clone() if isinstance(output, torch.Tensor) else output
                for output in program.load_method(name).execute(case["inputs"])
            ]
            for case in cases
        ]
        for name, cases in calls.items()
        if name in program.method_names
    }


def recorded(path):
    return torch.load(path.with_suffix(".io.pt"), weights_only=True)


def assert_equal(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.fixture(scope="module")
def wanted():
    """What the programs give as they are, asked for once."""
    known = {}

    def ask(path):
        if path not in known:
            data = data_of(path)
            known[path] = results(path, data[0] if data else None, recorded(path))
        return known[path]

    return ask


ANY_PROGRAM = pytest.mark.parametrize("path", programs(), ids=lambda path: path.stem)


def opened_data(path):
    data = data_of(path)
    return tsarchive.open(data[0]) if data else None


def written_over(path, draft, tmp_path, data=None):
    """The results of a draft, with the data file that it has."""
    target = tmp_path / path.name
    if data is not None:
        write_together([(draft, target), (data, tmp_path / "data.ptd")])
        return results(target, tmp_path / "data.ptd", recorded(path))
    draft.write(target)
    known = data_of(path)
    return results(target, known[0] if known else None, recorded(path))


@ANY_PROGRAM
def test_programs_with_other_alignments(path, tmp_path, wanted):
    draft = Draft(tsarchive.open(path))
    draft.align(segments=512, constants=64)
    assert_equal(written_over(path, draft, tmp_path), wanted(path))


@ANY_PROGRAM
def test_stripped_programs(path, tmp_path, wanted):
    draft = Draft(tsarchive.open(path))
    draft.strip()
    draft.upgrade()
    assert_equal(written_over(path, draft, tmp_path), wanted(path))


@ANY_PROGRAM
def test_programs_whose_constants_are_in_a_data_file_and_back(path, tmp_path, wanted):
    draft = Draft(tsarchive.open(path))
    if not draft.tensors and not draft._program().root.get("named_data"):
        pytest.skip("it has no constants in it")
    known = opened_data(path)
    data = draft.externalize(None, None if known is None else Draft(known))
    assert_equal(written_over(path, draft, tmp_path, data), wanted(path))
    with (
        tsarchive.open(tmp_path / path.name) as archive,
        tsarchive.open(tmp_path / "data.ptd") as other,
    ):
        whole = Draft(archive)
        assert whole.internalize(other)
        whole.write(tmp_path / "whole.pte")
    found = results(tmp_path / "whole.pte", None, recorded(path))
    assert_equal(found, wanted(path))


@ANY_PROGRAM
def test_programs_that_take_in_their_data_file(path, tmp_path, wanted):
    data = opened_data(path)
    if data is None:
        pytest.skip("it has no data file")
    draft = Draft(tsarchive.open(path))
    draft.internalize(data)
    draft.write(tmp_path / path.name)
    assert_equal(results(tmp_path / path.name, None, recorded(path)), wanted(path))


def test_two_data_files_merged_into_one_which_the_runtime_takes(corpus, tmp_path):
    path = corpus / "generated" / "ext_tagged.pte"
    first, second = map(tsarchive.open, data_of(path))
    data = Draft(first)
    data.merge(second)
    data.write(tmp_path / "all.ptd")
    for name, cases in results(path, tmp_path / "all.ptd", recorded(path)).items():
        expected = [case["expected"] for case in recorded(path)[name]]
        torch.testing.assert_close(cases, expected)


def test_a_program_with_inline_constants_is_upgraded_to_one_that_runs(corpus, tmp_path):
    path = corpus / "generated" / "legacy_inline.pte"
    with pytest.raises(RuntimeError):
        results(path, None, recorded(path))
    draft = Draft(tsarchive.open(path))
    assert draft.upgrade()
    draft.write(tmp_path / "new.pte")
    for name, cases in results(tmp_path / "new.pte", None, recorded(path)).items():
        expected = [case["expected"] for case in recorded(path)[name]]
        torch.testing.assert_close(cases, expected)


def test_renamed_tensors_are_found_in_a_renamed_data_file(corpus, tmp_path, wanted):
    path = corpus / "generated" / "ext_linear.pte"
    draft, data = Draft(tsarchive.open(path)), Draft(opened_data(path))
    for name in list(data.tensors):
        draft.rename(name, f"other.{name}")
        data.rename(name, f"other.{name}")
    assert_equal(written_over(path, draft, tmp_path, data), wanted(path))


@pytest.mark.parametrize("name", ["linear", "cnn", "ext_linear", "mutable_buffer_init", "lstm"])
def test_replaced_weights_are_those_that_run(corpus, tmp_path, name):
    """Every constant doubled: the same as torch gives that has them from the edited file."""
    path = corpus / "generated" / f"{name}.pte"
    draft, known = Draft(tsarchive.open(path)), opened_data(path)
    target = draft if known is None else Draft(known)
    for tensor, layout in target.tensors.items():
        if layout.dtype == "float32":
            target.replace(tensor, torch.zeros(layout.sizes).numpy())
    data = None if known is None else target
    found = written_over(path, draft, tmp_path, data)
    assert_zeroed(tmp_path, path, None if known is None else tmp_path / "data.ptd")
    assert found.keys() == results(path, known and data_of(path)[0], recorded(path)).keys()
    before = results(path, known and data_of(path)[0], recorded(path))
    assert any(
        not torch.equal(one, other)
        for name in found
        for ones, others in zip(found[name], before[name], strict=True)
        for one, other in zip(ones, others, strict=True)
    )


def assert_zeroed(tmp_path, path, data_path):
    with tsarchive.open(tmp_path / path.name) as archive:
        program = archive.executorch.program
        for method in program.methods:
            for value in method.values:
                if isinstance(value, Tensor) and value.dtype == "float32":
                    assert not any(program.initial_data(value) or b"")
    if data_path is not None:
        with tsarchive.open(data_path) as archive:
            found = archive.executorch.regions.content
            floats = [entry for entry in found.entries if entry.layout.dtype == "float32"]
            assert floats
            assert not any(any(found.data_of(entry)) for entry in floats)


def agrees(data, case):
    """Whether the runtime gets the results of a call that a bundle tells."""
    from executorch.extension.pybindings import portable_lib

    bundle = portable_lib._load_bundled_program_from_buffer(data)
    try:
        bundle.verify_result_with_bundled_expected_output("forward", case, 1e-5, 1e-8)
    except RuntimeError:
        return False
    return True


def test_calls_of_an_edited_bundle(corpus, tmp_path):
    draft = Draft(tsarchive.open(corpus / "generated" / "bundled.bpte"))
    draft.align(segments=4096, constants=64)
    draft.rename("forward.0", "weight")
    edited = draft.pieces().join()
    assert [agrees(edited, case) for case in range(3)] == [True] * 3
    name = "test_suites/forward/1/expected_outputs/0"
    draft.replace(name, torch.full(draft.tensors[name].sizes, 7.0).numpy())
    other = draft.pieces().join()
    assert [agrees(other, case) for case in range(3)] == [True, False, True]
