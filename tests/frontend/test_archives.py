"""Archives that torch wrote: every graph builds, prints the same text, and calls the overloads
that torch's own importer chooses."""

from __future__ import annotations

import pytest
import torch

from tests.support.archives import ARCHIVES, CORPUS
from tests.support.frontend import OpenedArchive, call_order, printed, torch_call_order, walk
from tsarchive.errors import ArchiveError, UnknownClassError, UnknownOperatorError
from tsarchive.ir.graph import Block
from tsarchive.operators.overloads import class_of, overloads_of

# torch warns of quantized tensors, which some archives hold as constants.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FIXTURES = [path for path in sorted(ARCHIVES.glob("*.pt")) if not path.name.endswith(".io.pt")]
REAL = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []


def torch_functions(path):
    """The graphs of all functions by qualified name; skips what torch does not load."""
    unit = torch._C.CompilationUnit()
    try:
        torch._C.import_ir_module(unit, str(path), None, {}, False)
    except RuntimeError as error:
        pytest.skip(f"torch does not load it: {str(error).strip().splitlines()[0][:100]}")
    return {function.qualified_name: function.graph for function in unit.get_functions()}


def is_upgraded(block: Block) -> bool:
    return any(node.upgrader for node in walk(block))


def check_overloads(path) -> None:
    expected = torch_functions(path)
    ours = OpenedArchive(path).functions()
    assert set(expected) <= set(ours)
    for name, graph in expected.items():
        if not is_upgraded(ours[name].graph):  # torch has put the body of upgraders in place
            assert call_order(ours[name].graph) == torch_call_order(graph), name


def is_current_form(version: int, text: str) -> bool:
    """Whether a torch that lists buffers wrote the text."""
    return version >= 3 and ("__parameters__" not in text or "__buffers__" in text)


def check_text(path, *, only_current: bool) -> int:
    archive = OpenedArchive(path)
    checked = 0
    for record, text in archive.records().items():
        if only_current and not is_current_form(archive.version, text):
            continue
        assert printed(archive.code, record, archive.table) == text, record
        checked += 1
    return checked


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_fixtures_print_the_same_text(path):
    assert check_text(path, only_current=False)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_fixtures_call_the_overloads_that_torch_chooses(path):
    check_overloads(path)


def calls(graph: Block) -> list[tuple[str, str | None]]:
    """The kinds of all nodes, in order, with the arguments of their schemas.

    Functions that TorchScript defines in its own language have no overload names in torch.
    """
    schemas = [(node.kind, node.schema) for node in walk(graph)]
    return [(kind, schema and str(schema.arguments)) for kind, schema in schemas]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_fixtures_mean_the_same_without_the_registry_of_torch(path):
    listed = OpenedArchive(path, operators=overloads_of, native_class=class_of).functions()
    for name, function in OpenedArchive(path).functions().items():
        assert calls(listed[name].graph) == calls(function.graph), name


needs_corpus = pytest.mark.skipif(
    not REAL, reason="the corpus of real archives is not beside the repository"
)


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_archives_call_the_overloads_that_torch_chooses(path):
    check_overloads(path)


# Archives by releases of torch that wrote `-> None`: torch changes their text, too.
BY_OLDER_TORCH = {
    "debian-pytorch-2.6.0__TestSerialization.test_lstm.scripted.pt",
    "debian-pytorch-2.6.0__TestSerialization.test_lstm.traced.pt",
    "pytorch-android-demo-app__mobile_model1_05207e3.pt",
}


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_archives_print_the_same_text(path):
    try:
        archive = OpenedArchive(path)
        texts = archive.records()
    except ArchiveError as error:
        pytest.skip(f"not a TorchScript archive: {error}")
    if archive.archive.kind != "torchscript":
        pytest.skip(f"it is of the kind {archive.archive.kind}")
    differing = []
    for record, text in texts.items():
        if not is_current_form(archive.version, text):
            continue
        try:
            again = printed(archive.code, record, archive.table)
        except (UnknownOperatorError, UnknownClassError) as error:
            pytest.skip(f"it needs a library that is not here: {str(error)[:100]}")
        if again != text:
            differing.append(record)
            texts[record] = again
    assert bool(differing) == (path.name in BY_OLDER_TORCH), differing
    if differing:
        settled = OpenedArchive(path, texts)
        for record in differing:
            assert printed(settled.code, record, settled.table) == texts[record], record
