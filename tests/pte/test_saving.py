"""``tsarchive.save`` of modules that were loaded from files of ExecuTorch."""

import copy
import io

import pytest
import torch

import tsarchive
from fixtures.executorch_programs import file_of, method
from fixtures.executorch_samples import BIAS, tensor
from tests.support.archives import CORPUS, saved
from tests.support.executorch_files import FIXTURES

PROGRAMS = sorted(
    [
        *FIXTURES.glob("*.pte"), *FIXTURES.glob("*.bpte"), *(CORPUS / "generated").glob("*.pte"),
        *(CORPUS / "generated").glob("*.bpte"), *(CORPUS / "pte").glob("*"),
    ]
)  # fmt: skip


def data_of(path):
    """The data file beside a program: ``ext_x.pte`` has ``ext_x__weights.ptd``."""
    return next(iter(sorted(path.parent.glob(f"{path.stem}__*.ptd"))), None)


def loaded(path):
    """The module, or a skip where this file is not loaded."""
    try:
        return tsarchive.load(path, data=data_of(path))
    except tsarchive.ArchiveError as error:
        pytest.skip(f"it does not load: {error}")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_what_was_loaded_is_written_back(path):
    module = loaded(path)
    assert saved(module) == path.read_bytes()
    assert saved(copy.deepcopy(module)) == path.read_bytes()


def stored(path):
    """A module and the names of the float buffers that its file has bytes of."""
    module = loaded(path)
    with tsarchive.open(path) as archive:
        names = [name for name in archive.tensors if name in module._buffers]
    return module, [name for name in names if module._buffers[name].dtype is torch.float32]


CHANGES = {
    "in place": lambda module, name: module._buffers[name].mul_(2).add_(1),
    "replaced": lambda module, name: module._buffers.update(
        {name: module._buffers[name] * 2 + 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_what_buffers_hold_now_is_written(path, change, tmp_path):
    module, names = stored(path)
    if not names or data_of(path):
        pytest.skip("it has no floats of its own")
    before = path.read_bytes()
    expected = {name: module._buffers[name] * 2 + 1 for name in names}
    for name in names:
        CHANGES[change](module, name)
    tsarchive.save(module, tmp_path / "x.pte")
    again = tsarchive.load(tmp_path / "x.pte")
    for name in names:
        torch.testing.assert_close(again._buffers[name], expected[name], rtol=0, atol=0)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda module, name: module._buffers.update({name: module._buffers[name].double()}),
        lambda module, name: module._buffers.update({name: module._buffers[name][None]}),
        lambda module, name: module._buffers.update({name: None}),
    ],
    ids=["dtype", "shape", "gone"],
)
def test_a_buffer_that_the_program_was_not_made_for(change, tmp_path):
    path = next(path for path in PROGRAMS if path.parent == FIXTURES and stored(path)[1])
    module, names = stored(path)
    change(module, names[0])
    target = tmp_path / "x.pte"
    target.write_bytes(b"old")
    with pytest.raises(tsarchive.SaveError, match=names[0].replace(".", r"\.")):
        tsarchive.save(module, target)
    assert target.read_bytes() == b"old"


def test_there_is_no_place_for_extra_files():
    path = next(path for path in PROGRAMS if path.parent == FIXTURES)
    with pytest.raises(tsarchive.SaveError, match="no place for extra files"):
        tsarchive.save(loaded(path), io.BytesIO(), extra_files={"a": "b"})


@pytest.mark.parametrize("name", ["ext_linear", "default_external"])
def test_data_files_are_not_written(name):
    found = sorted((CORPUS / "generated").glob(f"{name}*.pte")) if CORPUS.exists() else []
    if not found or data_of(found[0]) is None:
        pytest.skip("the corpus is not there")
    module = loaded(found[0])
    held = next(buffer for buffer in module._buffers.values() if buffer.is_floating_point())
    held.add_(1)
    with pytest.raises(tsarchive.SaveError, match="in a data file"):
        saved(module)


def counting_in_two_methods():
    """A buffer that both change; the file has bytes of it for each."""
    methods = []
    for number, name in enumerate(("down", "up"), start=1):
        state = tensor([3], data=number, at=(2, 0), extra_tensor_info=NAMED)
        steps = [(f"aten::{'add' if name == 'up' else 'sub'}_.Tensor", 0, 1, 2, 0)]
        values = [state, tensor([3], at=(1, 0)), 1]
        arenas = [0, 64, 16]
        methods.append(method(values, steps, [1], [0], name=name, non_const_buffer_sizes=arenas))
    return file_of(
        *methods,
        data=BIAS * 2,
        segments=[{"offset": 0, "size": 0}, {"offset": 0, "size": 24}],
        constant_segment={"segment_index": 0, "offsets": [0]},
        mutable_data_segments=[{"segment_index": 1, "offsets": [0, 0, 12]}],
    )


NAMED = {"fully_qualified_name": "count"}


def test_a_buffer_of_several_methods_is_one_and_keeps_what_it_holds():
    module = tsarchive.load(io.BytesIO(counting_in_two_methods()))
    assert saved(module) == counting_in_two_methods()
    assert list(module.state_dict()) == ["count"]
    module.up(torch.full((3,), 10.0))
    again = tsarchive.load(io.BytesIO(saved(module)))
    assert again.count.tolist() == [11, 12, 13]
    assert again.down(torch.ones(3)).tolist() == [10, 11, 12]
    assert again.up(torch.ones(3)).tolist() == [11, 12, 13]
