"""Debug records: from which user source each byte of code came.

They are those of torch's third save, the form that no longer changes from save to save.
"""

from __future__ import annotations

import importlib
import io
import linecache
import pickle
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tsarchive
from fixtures.modules import all_cases
from tests.support.archives import case_archive, records_of, saved, torch_loaded, torch_saved
from tests.support.held import (
    FROZEN,
    HELD,
    HELD_OUTSIDE_CLOSURES,
    HOLDERS,
    RECURRENT,
    UNFROZEN,
    Held,
    HeldByFork,
    LinearBeforeRecurrence,
    held_values,
)
from tests.support.networks import build, each_network
from tests.support.suite import examples
from tests.torchscript.debug_subjects import FILES, SUBJECTS, BuiltinFunctions
from tsarchive.adopt.function_sources import BUILTIN_SOURCES

ID = ".data/serialization_id"
# torch's own text is another one after it was read back; then no records can be compared.
CHANGING_TEXT = {"enum_loop": "a list of enum members gets a cast"}


def saved_records(module) -> dict[str, bytes]:
    return records_of(saved(module))


def third_save(module) -> dict[str, bytes]:
    data = torch_saved(module)
    for _ in range(2):
        data = torch_saved(torch_loaded(data))
    return records_of(data)


class WithoutClasses(pickle.Unpickler):
    def find_class(self, module, name):
        return list


def rows(record: bytes) -> list[tuple]:
    """Offset, source as (text, file, line), begin, end and tag of each row."""
    _, texts, found = WithoutClasses(io.BytesIO(record)).load()
    return [
        (at, "".join(texts[line] for line in lines), texts[file], first, begin, end, tag)
        for at, ((lines, file, first), begin, end), tag in found
    ]


def check(module) -> int:
    """Compare all debug records; the number of those whose text is no longer the same."""
    ours, theirs, first = saved_records(module), third_save(module), records_of(torch_saved(module))
    names = [name for name in first if name.endswith(".debug_pkl")]
    assert names == [name for name in ours if name.endswith(".debug_pkl")]
    same = [name for name in names if text_of(ours, name) == text_of(theirs, name)]
    for name in same:
        if len(same) == len(names):
            assert rows(ours[name]) == rows(theirs[name]), name
            assert ours[name] == theirs[name], name
        # Tags are counted over all records, and so over those of the changed text.
        assert retagged(rows(ours[name])) == retagged(rows(theirs[name])), name
    return len(names) - len(same)


def retagged(found: list[tuple]) -> list[tuple]:
    """Rows whose tags are counted anew."""
    tags: dict[int, int] = {}
    return [(*row[:-1], tags.setdefault(row[-1], len(tags))) for row in found]


def text_of(records: dict[str, bytes], debug_name: str) -> bytes:
    return records[debug_name.removesuffix(".debug_pkl")]


def test_cases(case):
    assert check(case.build()) == (case.name in CHANGING_TEXT)


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*was found in ScriptModule constants.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*instance-level annotations.*:UserWarning")
@pytest.mark.parametrize("name", SUBJECTS)
def test_subjects(name):
    assert check(SUBJECTS[name]()) == 0


def frozen(module):
    return torch.jit.freeze(torch.jit.script(module.eval()))


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("held", HELD, ids=str)
def test_containers_held_as_one_constant(held, holder):
    assert check(frozen(holder(held))) == 0


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("held", HELD_OUTSIDE_CLOSURES, ids=str)
def test_containers_of_complex_numbers(held, holder):
    assert check(frozen(holder(held))) == (holder is HeldByFork)


@settings(max_examples=examples(60))
@given(held_values, st.sampled_from([Held, HeldByFork]))
def test_any_container_held_as_one_constant(held, holder):
    check(frozen(holder(held)))


@pytest.mark.parametrize("subject", FROZEN)
def test_frozen_modules(subject):
    assert check(frozen(subject())) == 0


@pytest.mark.parametrize("subject", UNFROZEN)
def test_members_of_enums_and_parts_of_complex_numbers(subject):
    assert check(torch.jit.script(subject())) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("recurrent", RECURRENT)
def test_frozen_recurrent_networks(recurrent, layers):
    network = recurrent(4, 4, layers, bidirectional=layers == 2)
    assert check(torch.jit.freeze(torch.jit.trace(network.eval(), torch.rand(3, 2, 4)))) == 0
    # A pair that is taken apart at once is gone from the text of a scripted nn.RNN read back.
    assert check(frozen(network)) == (recurrent is torch.nn.RNN)


def test_constants_keep_the_numbers_that_the_text_has():
    """torch numbers them anew when it reads this text back; ours are those of its first save."""
    example = torch.rand(1, 4, 4)
    module = torch.jit.freeze(torch.jit.trace(LinearBeforeRecurrence().eval(), example))
    ours, first = saved_records(module), records_of(torch_saved(module))
    later = third_save(module)
    kept = [name for name in first if name.startswith("c") and not name.endswith(".debug_pkl")]
    assert {name: ours[name] for name in kept} == {name: first[name] for name in kept}
    assert check(module) == 1
    assert any(ours[name] != later[name] for name in kept if name.startswith("constants/"))


@pytest.mark.sample(3)
@each_network
def test_networks(name, kind):
    module, _ = build(name, kind)
    assert check(module) == 0


def test_a_seed_that_is_a_number_of_the_code():
    """Running the module seeds its generator constant with a number that the code has as well."""
    (case,) = (case for case in all_cases() if case.name == "generator_constant")
    module = case.build()
    module(*case.inputs[0])
    assert check(module) == 0


@pytest.mark.parametrize("name", ["break_continue", "tensor_properties", "trace_numbers"])
def test_loaded_modules(name):
    (case,) = (case for case in all_cases() if case.name == name)
    assert check(torch_loaded(case_archive(case))) == 0


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a new Python file from bytes."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def import_(name: str, content: bytes):
        (tmp_path / f"{name}.py").write_bytes(content)
        importlib.invalidate_caches()
        names.append(name)
        return importlib.import_module(name)

    yield import_
    for name in names:
        del sys.modules[name]


@pytest.mark.parametrize("name", FILES)
def test_forms_of_files(name, imported):
    assert check(torch.jit.script(imported(f"subject_{name}", FILES[name]).Subject())) == 0


def test_decorators_and_comments_belong_to_a_function(imported):
    assert check(torch.jit.script(imported("subject_base", FILES["nested"]).Other())) == 0


# Names in a function that is wrapped are those of the file of the wrapper.
WRAPPER = b"""\
import functools
from torch import Tensor


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*given, **named):
        return function(*given, **named)

    return wrapper
"""
WRAPPED = b"""\
import subject_wrapper
from subject_wrapper import wrapped
from torch import Tensor, nn


@wrapped
def doubled(x: Tensor) -> Tensor:
    return x * 2


class Base(nn.Module):
    @wrapped
    @wrapped
    def halved(self, x: Tensor) -> Tensor:
        \'\'\'A text
        of several lines.\'\'\'
        y = x + 1

        return y / 4


class Subject(Base):
    def __init__(self, number):
        super().__init__()
        self.number = number

    @wrapped
    def forward(self, x: Tensor) -> Tensor:
        return self.halved(x) * self.number + doubled(x)


subject_wrapper.doubled = doubled
"""


def test_functions_that_are_wrapped_in_another_file(imported):
    imported("subject_wrapper", WRAPPER)
    made = imported("subject_wrapped", WRAPPED).Subject
    for number in (1, 1.5):  # of two types, and so two classes
        assert check(torch.jit.script(made(number))) == 0


class Stubborn:
    """What stands under the name of a function by now; it has no attributes to ask for."""

    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("kind", [Stubborn, object, staticmethod])
def test_what_a_name_means_by_now_does_not_matter(imported, monkeypatch, kind):
    imported("subject_wrapper", WRAPPER)
    found = imported(f"subject_renamed_{kind.__name__}", WRAPPED)
    module = torch.jit.script(found.Subject(1))
    now = kind(len) if kind is staticmethod else kind()
    monkeypatch.setattr(found.Subject, "forward", now)
    buffer = io.BytesIO()
    tsarchive.save(module, buffer)
    assert torch_loaded(buffer.getvalue())(torch.ones(1)) == module(torch.ones(1))


def test_no_module_is_needed_to_name_a_function(imported, monkeypatch):
    imported("subject_wrapper", WRAPPER)
    module = torch.jit.script(imported("subject_lost", WRAPPED).Subject(1))
    buffer = io.BytesIO()
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "subject_lost")
        without.delitem(sys.modules, "__main__")
        tsarchive.save(module, buffer)
    assert torch_loaded(buffer.getvalue())(torch.ones(1)) == module(torch.ones(1))


@pytest.mark.parametrize("is_gone", [False, True])
def test_files_that_changed_are_seen_around_each_node(imported, tmp_path, is_gone):
    name = f"subject_gone_{is_gone}"
    module = torch.jit.script(imported(name, FILES["no_line_end"]).Subject())
    expected = third_save(module)
    path = tmp_path / f"{name}.py"
    path.unlink() if is_gone else path.write_bytes(b"\n\n" + FILES["tabs"])
    linecache.checkcache()
    record = f"code/__torch__/{name}.py.debug_pkl"
    assert rows(saved_records(module)[record]) == rows(expected[record])


def test_sources_of_builtin_functions_are_those_of_torch():
    record = torch_saved(torch.jit.script(BuiltinFunctions()))
    name = "code/__torch__/tests/torchscript/debug_subjects.py.debug_pkl"
    texts = {row[1] for row in rows(records_of(record)[name]) if row[2] == "<string>"}
    assert texts == set(BUILTIN_SOURCES)


def test_archives_equal_those_of_torch_with_their_id(case):
    """Where nothing is lost on the way to the third save, the whole archive is the same."""
    module = case.build()
    theirs = third_save(module)
    ours = saved_records(module)
    lost = "traced_inputs.pkl" in ours or case.name in CHANGING_TEXT
    assert (ours == theirs) != lost
    assert (ours[ID] == theirs[ID]) != lost


def test_ids_are_those_that_torch_computes(case):
    records = saved_records(case.build())
    writer = torch._C.PyTorchFileWriter(io.BytesIO())
    for name, content in records.items():
        if name != ID:
            writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    assert records[ID].decode() == writer.serialization_id()
