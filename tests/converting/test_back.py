"""Archives of one format as archives of another, and what all conversions share."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch.utils._pytree import tree_map

import tsarchive
from tests.converting.comparing import (
    Flags,
    assert_no_jitter,
    by,
    close,
    plain,
    scripts,
    written,
)
from tests.converting.rows import OPEN, Registered
from tests.support.archives import ARCHIVES, records_of, torch_saved
from tests.support.features import stores_weights_apart
from tests.support.networks import build, each_network, tensor_cases
from tests.support.pt2_archives import packaged
from tests.support.suite import sampled
from tsarchive.formats.pt2.exporter import scripted_records
from tsarchive.ir.graph import walk

# TorchScript to PT2, and back


@stores_weights_apart
@pytest.mark.sample(2, gaps="networks are slow, and tests of records and of bodies have them all")
@each_network
@pytest.mark.filterwarnings("ignore")
def test_networks_there_and_back(name, kind, tmp_path):
    module, inputs = build(name, kind)
    path = tmp_path / "net.pt"
    path.write_bytes(torch_saved(module))
    done = tsarchive.convert(path, tmp_path / "net.pt2", args=inputs)
    assert (done.file_kind, done.kind) == ("torchscript", "pt2")
    assert done.nbytes == (tmp_path / "net.pt2").stat().st_size
    assert sorted(torch.export.load(tmp_path / "net.pt2").state_dict) == sorted(module.state_dict())
    tsarchive.convert(tmp_path / "net.pt2", tmp_path / "back.pt")
    modules = (torch.export.load(tmp_path / "net.pt2").module(), *scripts(tmp_path / "back.pt"))
    expected = tsarchive.load(path)(*inputs)
    for one in modules:
        torch.testing.assert_close(one(*inputs), expected)
    assert_no_jitter(tmp_path / "back.pt")


def held(result):
    """A result whose bools are tensors, as programs of torch.export hold those of tensors."""
    return tree_map(lambda leaf: torch.tensor(leaf) if type(leaf) is bool else leaf, result)


def test_fixture_modules_there_and_back(tmp_path):
    """Modules that torch.export takes give equal results on the way there and back."""
    done, refused = 0, {}
    for case in sampled(list(tensor_cases())[1::4], 6):
        if case.name.startswith("quantized"):
            continue  # up to steps of scales: test_exporting_quantized.py
        module, inputs, path = case.build(), case.inputs[0], tmp_path / "case.pt"
        path.write_bytes(torch_saved(module))
        torch.manual_seed(1)
        expected = module(*copy.deepcopy(inputs))
        if not inputs:
            continue
        try:
            notes = tsarchive.convert(path, tmp_path / "case.pt2", args=inputs).notes
        except (tsarchive.ArchiveError, SyntaxError, ValueError) as error:
            refused[case.name] = str(error)
            continue
        try:
            tsarchive.convert(tmp_path / "case.pt2", path)
        except tsarchive.UnsupportedError as error:  # a generator of random numbers
            refused[case.name] = str(error)
            continue
        for one in scripts(path):
            torch.manual_seed(1)
            found = one(*copy.deepcopy(inputs))
            wanted = held(plain(expected)) if any(n.kind == "result" for n in notes) else expected
            assert close(plain(found), plain(wanted))
        done += 1
    assert done > 3 * len(refused), refused


@stores_weights_apart
def test_open_sizes_there_and_back(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(torch_saved(torch.jit.script(Flags())))
    x = torch.ones(3, 2)
    tsarchive.convert(path, tmp_path / "net.pt2", args=(x,), dynamic_shapes=({0: OPEN},))
    tsarchive.convert(tmp_path / "net.pt2", tmp_path / "back.pt")
    again = tmp_path / "again.pt2"
    tsarchive.convert(tmp_path / "back.pt", again, kwargs={"x": x}, dynamic_shapes={"x": {0: OPEN}})
    for module in (*scripts(tmp_path / "back.pt"), torch.export.load(again).module()):
        assert module(x=torch.ones(5, 2)).shape == (5, 2)
        with pytest.raises(Exception, match="x"):
            module(x=torch.ones(5, 3))


# What all conversions share


def test_torchscript_to_torchscript_keeps_the_code(tmp_path):
    done = tsarchive.convert(ARCHIVES / "sequential.pt", tmp_path / "out.pth")
    assert (done.file_kind, done.kind) == ("torchscript", "torchscript")
    found, wanted = (
        {name: data for name, data in records_of(path.read_bytes()).items() if "code/" in name}
        for path in (tmp_path / "out.pth", ARCHIVES / "sequential.pt")
    )
    assert found == wanted


@pytest.mark.parametrize("name", ["model.h5", "model", "model.pt2.zip", "pt2"])
def test_other_names_say_nothing(name, tmp_path):
    with pytest.raises(tsarchive.CallError, match=r"end in \.pt2, .* in \.pt, \.pth or \.ts"):
        tsarchive.convert(ARCHIVES / "sequential.pt", tmp_path / name)
    assert [*tmp_path.iterdir()] == []


def test_arguments_are_for_tracing(tmp_path):
    source = ARCHIVES / "sequential.pt"
    with pytest.raises(tsarchive.CallError, match="example arguments"):
        tsarchive.convert(source, tmp_path / "out.pt2")
    for given in ({"args": ()}, {"kwargs": {}}, {"dynamic_shapes": {}}):
        with pytest.raises(tsarchive.CallError, match="takes no arguments"):
            tsarchive.convert(source, tmp_path / "out.pt", **given)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["old.pt", "old.pt2"])
def test_a_failure_leaves_the_old_file(name, tmp_path):
    old = tmp_path / name
    old.write_bytes(b"old")
    program = torch.export.export(by(lambda self, x: torch.ones(2)), (Registered(torch.ones(2)),))
    torch.export.save(program, tmp_path / "source.pt2")
    source = tmp_path / "source.pt2" if name.endswith(".pt") else ARCHIVES / "sequential.pt"
    with pytest.raises(tsarchive.ArchiveError):
        tsarchive.convert(source, old)
    assert old.read_bytes() == b"old"


def test_an_archive_may_replace_itself(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes((ARCHIVES / "sequential.pt").read_bytes())
    tsarchive.convert(path, path)
    assert_no_jitter(path)


@pytest.fixture
def two_models():
    programs = {
        name: torch.export.export(by(lambda self, x, n=n: x + n), (torch.zeros(2),))
        for n, name in enumerate(("one", "two"))
    }
    return packaged(programs)


def test_models_by_name(two_models, tmp_path):
    source = tmp_path / "two.pt2"
    source.write_bytes(two_models)
    with pytest.raises(tsarchive.CallError, match="2 models"):
        tsarchive.convert(source, tmp_path / "out.pt")
    tsarchive.convert(source, tmp_path / "all.pt2")
    for number, name in enumerate(("one", "two")):
        module = tsarchive.load(tmp_path / "all.pt2", model=name)
        assert module(torch.zeros(2)).tolist() == [number, number]
    tsarchive.convert(source, tmp_path / "out.pt", model="two")
    assert torch.jit.load(tmp_path / "out.pt")(torch.zeros(2)).tolist() == [1, 1]


def test_devices_move(tmp_path):
    program = torch.export.export(by(lambda self, x: x + torch.ones(2)), (torch.zeros(2),))
    torch.export.save(program, tmp_path / "net.pt2")
    tsarchive.convert(tmp_path / "net.pt2", tmp_path / "net.pt", map_location="meta")
    assert torch.jit.load(tmp_path / "net.pt")(torch.ones(2, device="meta")).is_meta


def test_steps_are_told(tmp_path):
    steps = []
    tsarchive.convert(ARCHIVES / "sequential.pt", tmp_path / "out.pt", step=steps.append)
    assert steps == [f"loading {ARCHIVES / 'sequential.pt'}", f"writing {tmp_path / 'out.pt'}"]


def test_names_that_are_keywords(tmp_path):
    """Names of classes come from files."""

    class Network(torch.nn.Module):
        def forward(self, x):
            return x + 1

    Network.__name__ = Network.__qualname__ = "while"
    program = torch.export.export(Network(), (torch.ones(2),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, mine = scripts(written(program, tmp_path / "net.pt2"))
    assert theirs(torch.ones(2)).tolist() == mine(torch.ones(2)).tolist() == [2, 2]


def test_converted_programs_are_sound_and_name_lines_of_user_source(tmp_path):
    class Chosen(torch.nn.Module):
        def forward(self, x, index):
            return x[index] + 1

    source, made = tmp_path / "net.pt2", tmp_path / "net.pt"
    program = torch.export.export(Chosen(), (torch.ones(2, 3), torch.tensor([1])))
    torch.export.save(program, source)
    tsarchive.convert(source, made)
    assert tsarchive.verify(made).verdict == "sound"
    module = torch.jit.load(made)
    with pytest.raises((RuntimeError, IndexError)) as caught:
        module(torch.ones(2, 3), torch.tensor([9]))
    assert f'File "{__file__}"' in str(caught.value)
    assert "return x[index] + 1\n" in str(caught.value)


def converted(call, args, folder):
    """The program of a call, and what torch.jit loads of it."""

    class Network(torch.nn.Module):
        def forward(self, *given):
            return call(*given)

    program = torch.export.export(Network(), args)
    torch.export.save(program, folder / "net.pt2")
    tsarchive.convert(folder / "net.pt2", folder / "net.pt")
    return program.module(), torch.jit.load(folder / "net.pt")


def test_views_of_another_dtype_are_copied(tmp_path):
    """TorchScript has none. Writing before such a view is made is no matter."""
    args = (torch.randn(2, 4),)

    def bits(x):
        y = x * 2
        y.add_(1)
        return x.view(torch.int32), y.view(torch.int16) + 1, y.view(torch.uint8).sum()

    expected, module = converted(bits, args, tmp_path)
    assert all(map(torch.equal, expected(*args), module(*args)))


def test_printing_leaves_the_module_as_it_was(tmp_path):
    converted(lambda x: x.view(torch.int32), (torch.randn(2, 4),), tmp_path)
    loaded = tsarchive.load(tmp_path / "net.pt2")
    graph = loaded.tsarchive_class.methods["forward"].graph
    before = [(node.kind, node.schema) for node in walk(graph.nodes)]
    assert b"view_copy" in b"".join(bytes(record.data) for record in scripted_records(loaded))
    assert [(node.kind, node.schema) for node in walk(graph.nodes)] == before


def test_views_of_another_dtype_that_are_written_to_are_refused(tmp_path):
    def negated(x):
        y = x.clone()
        y.view(torch.int32).bitwise_xor_(-(2**31))
        return y

    with pytest.raises(tsarchive.UnsupportedError, match="a view of another dtype"):
        converted(negated, (torch.randn(3),), tmp_path)
    x = torch.randn(3)
    assert torch.equal(tsarchive.load(tmp_path / "net.pt2")(x), -x)


def test_classes_keep_their_names_on_both_ways(tmp_path):
    class OfThisTest(torch.nn.Linear):
        pass

    script, exported, back = (tmp_path / name for name in ("a.pt", "b.pt2", "c.pt"))
    torch.jit.save(torch.jit.script(OfThisTest(3, 2)), script)
    tsarchive.convert(script, exported, args=(torch.ones(1, 3),))
    tsarchive.convert(exported, back)
    names = []
    for path in (script, back):
        with tsarchive.open(path) as archive:
            names.append(archive.root.cls.qualified_name)
    assert names[0] == names[1]
    assert names[0].endswith(".OfThisTest")


def test_code_has_no_sizes_that_nothing_takes(tmp_path):
    class Open(torch.nn.Module):
        def forward(self, x):
            return x + 1

    program = torch.export.export(Open(), (torch.ones(2, 3),), dynamic_shapes=({0: OPEN},))
    torch.export.save(program, tmp_path / "net.pt2")
    tsarchive.convert(tmp_path / "net.pt2", tmp_path / "net.pt")
    with tsarchive.open(tmp_path / "net.pt") as archive:
        (code,) = archive.code.values()
    assert "torch.size(x, 1)" in code
    assert "torch.size(x, 0)" not in code


def test_losses_that_torch_writes_in_python_load_and_have_no_code(tmp_path):
    losses = pytest.importorskip(
        "torch.nn.modules.linear_cross_entropy_options", reason="this torch has no such losses"
    )
    options = losses.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)

    class Loss(torch.nn.Module):
        def forward(self, x, weight, target):
            loss = torch.nn.functional.linear_cross_entropy
            return loss(x, weight, target, options=options)

    args = torch.randn(6, 3), torch.randn(4, 3), torch.tensor([0, 1, 2, 3, 0, 1])
    program = torch.export.export(Loss(), args)
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    torch.testing.assert_close(tsarchive.load(path)(*args), program.module()(*args))
    with pytest.raises(tsarchive.UnsupportedError, match="written in Python") as caught:
        tsarchive.convert(path, tmp_path / "net.pt")
    assert "without chunks" in caught.value.hint
