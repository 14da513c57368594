"""PT2 archives as TorchScript archives: torch runs both, with equal results."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch.utils._pytree import _register_namedtuple, tree_leaves

import tsarchive
from tests.converting.comparing import (
    Flags,
    assert_no_jitter,
    assert_same_calls,
    by,
    called,
    close,
    names,
    scripts,
    written,
)
from tests.converting.rows import ROWS, Registered
from tests.support import pt2_corpus
from tests.support.archives import ARCHIVES, records_of
from tests.support.features import exports_numbers, stores_weights_apart
from tsarchive.formats.pt2.metadata import make_stable
from tsarchive.formats.pt2.schema import Graph, Node

FORMS = {"plain": lambda program: program, "decomposed": lambda p: p.run_decompositions()}
# torch makes Python code of a program that it calls, and of one that it decomposes; names that
# are no identifiers end in syntax errors there.
NOT_CALLED_BY_TORCH = {"odd names"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_a_program_becomes_torchscript(name, form, tmp_path):
    row, is_called = ROWS[name], name not in NOT_CALLED_BY_TORCH
    if form != "plain" and not is_called:
        pytest.skip("torch does not decompose it")
    program = FORMS[form](row.exported())
    path = written(program, tmp_path / "net.pt2")
    expected, (theirs, mine) = program.module() if is_called else row.module(), scripts(path)
    for kind in ("named_parameters", "named_buffers"):
        wanted = names(expected, kind)
        assert names(theirs, kind) == names(mine, kind) == wanted
    calls = [(row.args, row.kwargs)] * 3 + [(args, {}) for args in row.more]
    assert_same_calls((theirs, mine), expected, calls)
    for module in (theirs, mine):
        found = {**module.state_dict()}
        assert all(close(found[key], value) for key, value in expected.state_dict().items())
    assert_no_jitter(path)


@exports_numbers
@pytest.mark.filterwarnings("ignore")
def test_wrong_arguments_are_refused_as_by_the_program(tmp_path):
    row = ROWS["open size"]
    theirs, mine = scripts(written(row.exported(), tmp_path / "net.pt2"))
    for wrong in (torch.ones(4, 5), torch.ones(4)):
        for module in (theirs, mine):
            with pytest.raises(Exception, match=r"x.*must"):
                module(wrong)


def test_frozen_and_optimised_forms_run(tmp_path):
    program = torch.export.export(Flags().eval(), (torch.ones(1, 2),))
    theirs, _ = scripts(written(program, tmp_path / "net.pt2"))
    x = torch.randn(1, 2)
    wanted = program.module()(x)
    frozen = torch.jit.freeze(theirs.eval())
    for module in (frozen, torch.jit.optimize_for_inference(frozen)):
        for _ in range(3):
            assert close(module(x).detach(), wanted.detach())


@pytest.mark.parametrize("name", ["state", "recurrent", "gradients", "autocast"])
@pytest.mark.filterwarnings("ignore")
def test_gradients_flow_where_they_do(name, tmp_path):
    row = ROWS[name]
    program = row.exported()
    modules = (program.module(), *scripts(written(program, tmp_path / "net.pt2")))
    found = [
        [tensor.requires_grad for tensor in tree_leaves(called(module, row.args, {})[0])]
        for module in modules
    ]
    assert found[0] == found[1] == found[2]


def test_tied_weights_stay_tied(tmp_path):
    theirs, mine = scripts(written(ROWS["tied"].exported(), tmp_path / "net.pt2"))
    for module in (theirs, mine):
        pointers = {module.a.weight.data_ptr(), module.b.weight.data_ptr()}
        assert len(pointers) == 1
        assert module.part.data_ptr() == module.a.weight[1:].data_ptr()


def test_conversions_of_one_process_are_equal(tmp_path):
    """Metadata tell neither a count of the process nor lines of the library."""
    source = ARCHIVES / "sequential.pt"
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        tsarchive.convert(source, tmp_path / folder / "net.pt2", args=(torch.ones(2, 3),))
    first, second = ((tmp_path / f / "net.pt2").read_bytes() for f in ("first", "second"))
    assert first == second
    assert b"<tsarchive __torch__" in first
    assert b"calls_from_python" not in first


def test_stack_traces_keep_frames_of_the_user_alone():
    package = Path(tsarchive.__file__).parent
    trace = """  File "/home/me/tsarchive_zoo/net.py", line 3, in forward
    return helper(x)
  File "<tsarchive __torch__.Net.forward #2>", line 4, in forward
    stacked = aten_stack(xs); del xs
  File "PACKAGE/run/natives/tensors.py", line 40, in stack
    return torch.stack(xs)
           ^^^^^^^^^^^^^^^""".replace("PACKAGE", str(package))
    graph = Graph([], [], [Node("f", [], [], {"stack_trace": trace})], {}, {}, {})
    make_stable(graph, origins=True, paths=True)
    kept = graph.nodes[0].metadata["stack_trace"]
    assert kept.splitlines() == [
        'File "/home/me/tsarchive_zoo/net.py", line 3, in forward',
        "    return helper(x)",
        '  File "<tsarchive __torch__.Net.forward>", line 4, in forward',
        "    stacked = aten_stack(xs); del xs",
    ]


@stores_weights_apart
def test_extra_files_are_kept(tmp_path):
    program = torch.export.export(Flags(), (torch.ones(1, 2),))
    torch.export.save(program, tmp_path / "a.pt2", extra_files={"notes/one.txt": "ä"})
    tsarchive.convert(tmp_path / "a.pt2", tmp_path / "a.pt")
    found = {"notes/one.txt": ""}
    torch.jit.load(tmp_path / "a.pt", _extra_files=found)
    assert found == {"notes/one.txt": "ä".encode()}
    tsarchive.convert(tmp_path / "a.pt", tmp_path / "b.pt2", args=(torch.ones(1, 2),))
    found = {"notes/one.txt": ""}
    torch.export.load(tmp_path / "b.pt2", extra_files=found)
    assert found == {"notes/one.txt": "ä"}


# Files of the corpus


@stores_weights_apart
@pytest.mark.parametrize("path", pt2_corpus.RUNNING, ids=lambda path: path.stem)
def test_files_of_the_corpus(path, tmp_path):
    out = tmp_path / "out.pt"
    tsarchive.convert(path, out)
    modules = scripts(out)
    if path.stem not in pt2_corpus.NOT_BY_TORCH:
        calls = [(args, kwargs) for args, kwargs, _ in pt2_corpus.cases(path)]
        assert_same_calls(modules, pt2_corpus.by_torch(path), calls)
    assert_no_jitter(out)


@stores_weights_apart
@pytest.mark.parametrize("path", pt2_corpus.RUNNING, ids=lambda path: path.stem)
def test_files_of_the_corpus_in_the_layout_of_today(path, tmp_path):
    out = tmp_path / "out.pt2"
    tsarchive.convert(path, out)
    assert "archive_format" in records_of(out.read_bytes())
    if path.stem not in pt2_corpus.NOT_BY_TORCH:
        calls = [(args, kwargs) for args, kwargs, _ in pt2_corpus.cases(path)]
        modules = (pt2_corpus.by_torch(out), tsarchive.load(out))
        assert_same_calls(modules, pt2_corpus.by_torch(path), calls)


# What TorchScript cannot hold


class Mixed(NamedTuple):
    items: list


_register_namedtuple(Mixed, serialized_type_name="converting.Mixed")

REFUSED = {
    "a mixed list in a mixed list": ([torch.ones(2), [torch.ones(2), 3]], r"x\[1\] is a list"),
    "a mixed dict in a mixed list": ([1, {"a": torch.ones(2), "b": 3}], r"x\[1\] is a dict"),
    "an empty list in a mixed list": ([torch.ones(2), []], r"x\[1\] is a list that has no items"),
    "an empty dict in a tuple there": ([1, (torch.ones(2), {})], r"x\[1\]\[1\] is a dict"),
    "a mixed list in a named tuple": (Mixed([torch.ones(2), 3]), "x is a named tuple with a field"),
    "an object": (Registered(torch.ones(2)), "x is an object of converting.Registered"),
    "an object in a tuple": ((1, Registered(torch.ones(2))), r"x\[1\] is an object"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_have_no_form(name, tmp_path):
    value, message = REFUSED[name]
    program = torch.export.export(by(lambda self, x: torch.ones(2)), (value,))
    with pytest.raises(tsarchive.UnsupportedError, match=f"no form in TorchScript: .*{message}"):
        written(program, tmp_path / "net.pt2")
    assert not (tmp_path / "net.pt").exists()


def test_results_that_have_no_form(tmp_path):
    program = torch.export.export(by(lambda self, x: [Registered(x)]), (torch.ones(2),))
    with pytest.raises(tsarchive.UnsupportedError, match=r"the result\[0\] is an object"):
        written(program, tmp_path / "net.pt2")


def test_operators_that_python_alone_has(tmp_path):
    from torch._decomp import decomposition_table

    program = torch.export.export(by(lambda self, x: x.exp()), (torch.ones(2),))
    program = program.run_decompositions(decomposition_table)
    with pytest.raises(tsarchive.UnsupportedError, match=r"prims::exp is written in Python"):
        written(program, tmp_path / "net.pt2")


@pytest.mark.filterwarnings("ignore")
def test_decompositions_of_the_compiler(tmp_path):
    from torch._inductor.decomposition import decompositions

    def call(self, x):
        found = x.flip(0), x.to(torch.float64), x.double() * x, torch.arange(5, -3, -2)
        return *found, torch.nn.functional.pad(x[None], (2, 2), mode="reflect"), torch.arange(4)

    x = torch.randn(4, 3)
    program = torch.export.export(by(call), (x,)).run_decompositions(decompositions)
    used = {str(node.target) for node in program.graph.nodes if "prims" in str(node.target)}
    assert {"prims.rev.default", "prims.convert_element_type.default", "prims.iota.default"} <= used
    modules = scripts(written(program, tmp_path / "net.pt2"))
    assert_same_calls(
        (*modules, tsarchive.load(tmp_path / "net.pt2")), program.module(), [((x,), {})]
    )


def test_operators_that_nobody_registered(tmp_path):
    path = pt2_corpus.GENERATED / "pt2_customop.pt2"
    if not path.exists():
        pytest.skip("the corpus is not beside the repository")
    with pytest.raises(tsarchive.UnknownOperatorError, match="corpus::scale_add"):
        tsarchive.convert(path, tmp_path / "out.pt")
    assert [*tmp_path.iterdir()] == []


def test_operators_of_this_process_are_called_by_name(tmp_path):
    @torch.library.custom_op("convertingtests::own", mutates_args=())
    def own(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    own.register_fake(lambda x, by: torch.empty_like(x))
    program = torch.export.export(
        by(lambda self, x: torch.ops.convertingtests.own(x, 3.0)), (torch.ones(2),)
    )
    theirs, mine = scripts(written(program, tmp_path / "net.pt2"))
    assert theirs(torch.ones(2)).tolist() == mine(torch.ones(2)).tolist() == [3, 3]
