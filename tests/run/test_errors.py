"""Errors of archive code: their class and message, and tracebacks that name the user's source."""

from __future__ import annotations

import bdb
import builtins
import importlib
import inspect
import io
import linecache
import pickle
import threading
import traceback
import zipfile

import pytest
import torch

import tsarchive
from tests.support.archives import torch_saved
from tsarchive.errors import ScriptError, SourceError
from tsarchive.formats.torchscript.debug_records import DebugWriter, read_debug_record
from tsarchive.ir.source_ranges import Range, Source, TaggedRange
from tsarchive.run.classes import Classes
from tsarchive.run.linkage import source_of


class OwnError(Exception):
    pass


class Raising(torch.nn.Module):
    def forward(self, kind: int, text: str) -> int:
        if kind == 0:
            raise ValueError(text)
        if kind == 1:
            raise OwnError(text)
        if kind == 2:
            raise RuntimeError(text)
        if kind == 3:
            assert kind == 0, text
        if kind == 4:
            assert kind == 0
        if kind == 5:
            raise NotImplementedError(text)
        return [1, 2][kind]


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x.view(n, -1)  # the failing line


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + 1
        return self.inner(y, n)  # the calling line


class Traced(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).view(2, 4)  # the traced line


class Waits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        later = torch.jit.fork(divided, x)
        return torch.jit.wait(later)


def divided(x: torch.Tensor) -> torch.Tensor:
    return x.view(5, 7)  # the forked line


class State(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.number = 1

    @torch.jit.export
    def __getstate__(self):
        return (self.number, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]):
        if state[0] > 1:
            raise ValueError("too much state")  # the line of the state
        self.number = state[0]
        self.training = state[1]

    def forward(self) -> int:
        return self.number


def line_of(marker: str) -> int:
    """The line of this file that ends in a comment."""
    text = inspect.getsource(inspect.getmodule(line_of)).split("\n")
    return next(number for number, line in enumerate(text, 1) if line.endswith(f"# {marker}"))


def loaded(module):
    return tsarchive.load(io.BytesIO(torch_saved(module)))


def edited(module, old: bytes, new: bytes) -> io.BytesIO:
    """The archive of a module with another text in its code."""
    source = zipfile.ZipFile(io.BytesIO(torch_saved(module)))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for name in source.namelist():
            data = source.read(name)
            file.writestr(name, data.replace(old, new) if name.endswith(".py") else data)
    target.seek(0)
    return target


@pytest.mark.parametrize(
    ("kind", "class_", "name", "message"),
    [
        (0, ValueError, "builtins.ValueError", "näh {}"),
        (1, Exception, f"{__name__}.OwnError", "näh {}"),
        (2, RuntimeError, "builtins.RuntimeError", "näh {}"),
        (3, AssertionError, "builtins.AssertionError", "näh {}"),
        (4, AssertionError, "builtins.AssertionError", ""),
        (5, NotImplementedError, "builtins.NotImplementedError", "näh {}"),
        (6, IndexError, "builtins.IndexError", "list index out of range"),
    ],
)
def test_class_and_message_are_those_of_the_archive(kind, class_, name, message):
    module = loaded(torch.jit.script(Raising()))
    with pytest.raises(class_) as caught:
        module(kind, "näh {}")
    assert isinstance(caught.value, ScriptError)
    assert type(caught.value).__name__ == name.rpartition(".")[2]
    assert (caught.value.exception, str(caught.value)) == (name, message)


@pytest.mark.parametrize("name", [n for n in dir(builtins) if isinstance(vars(builtins)[n], type)])
def test_every_class_of_python_can_be_named(name):
    """An error that steers Python itself stays one of the archive."""
    made = ScriptError("text", exception=f"builtins.{name}")
    class_ = vars(builtins)[name]
    assert type(made).__name__ == name
    assert not isinstance(made, StopIteration | StopAsyncIteration | OSError)
    assert not isinstance(made, SystemExit | KeyboardInterrupt | SyntaxError)
    if class_ in (ValueError, KeyError, UnicodeDecodeError, AttributeError, MemoryError):
        assert isinstance(made, class_)
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), str(again), again.exception) == (type(made), "text", made.exception)
    assert "text" in "".join(traceback.format_exception(made))


@pytest.mark.parametrize("name", ["RuntimeError", "", "a b.c", "x.1", "a..b", "builtins.", "\0.x"])
def test_what_names_no_class_is_a_plain_error(name):
    assert type(ScriptError("text", exception=name)) is ScriptError


def test_traceback_names_the_lines_of_the_user():
    module = loaded(torch.jit.script(Outer()))
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    places = [(f.filename, f.lineno, f.name) for f in frames if f.filename == __file__][1:]
    assert places == [
        (__file__, line_of("the calling line"), "forward"),
        (__file__, line_of("the failing line"), "forward"),
    ]
    # Generated code stays, for a debugger.
    generated = [f.line for f in frames if f.filename.startswith("<tsarchive ")]
    assert len(generated) == 2
    assert "aten_view" in generated[1]
    assert not any(f"{'run'}/linkage" in f.filename for f in frames)


def test_traceback_of_traced_code():
    module = loaded(torch.jit.trace(Traced(), torch.ones(2, 4)))
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(3, 4))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert (__file__, line_of("the traced line")) in [(f.filename, f.lineno) for f in frames]


def test_traceback_of_forked_code():
    module = loaded(torch.jit.script(Waits()))
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            module(torch.ones(2))
        frames = traceback.extract_tb(caught.value.__traceback__)
        lines = [f.lineno for f in frames if f.filename == __file__]
        assert lines.count(line_of("the forked line")) == 1


def test_traceback_through_python_hooks_tells_each_line_once():
    module = loaded(torch.jit.script(Outer()))
    module.inner.register_forward_pre_hook(lambda module, given: None)
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    lines = [f.lineno for f in frames if f.filename == __file__]
    assert lines.count(line_of("the calling line")) == 1
    assert lines.count(line_of("the failing line")) == 1


def test_state_that_raises_while_loading():
    scripted = torch.jit.script(State())
    scripted.number = 2
    with pytest.raises(ValueError, match="too much state") as caught:
        loaded(scripted)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert line_of("the line of the state") in [f.lineno for f in frames]


def test_source_that_is_not_on_this_machine_is_shown_from_the_archive(tmp_path, monkeypatch):
    text = (
        "import torch\n\n\nclass Elsewhere(torch.nn.Module):\n"
        "    def forward(self, x, n: int):\n        return x.view(n, -1)  # unseen\n"
    )
    path = tmp_path / "elsewhere.py"
    path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("elsewhere").Elsewhere()
    file = io.BytesIO(torch_saved(torch.jit.script(module)))
    path.unlink()
    linecache.checkcache()
    module = tsarchive.load(file)
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "{path}", line 6, in forward\n    return x.view(n, -1)  # unseen\n' in shown


def renamed_source(module, filename: str) -> io.BytesIO:
    """The archive of a module whose debug records name another file."""
    source = zipfile.ZipFile(io.BytesIO(torch_saved(module)))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith(".debug_pkl"):
                record = name.partition("/")[2]
                rows = read_debug_record(data, record)
                data = DebugWriter().record([pointing_at(row, filename) for row in rows])
            target.writestr(name, data)
    file.seek(0)
    return file


def pointing_at(row: TaggedRange, filename: str) -> TaggedRange:
    if row.range is None:
        return row
    source = Source(row.range.source.text, filename, row.range.source.first_line)
    return row._replace(range=Range(source, row.range.begin, row.range.end))


@pytest.mark.parametrize("filename", ["/dev/zero", "/etc/passwd", "<stdin>", "", "nowhere.py"])
def test_tracebacks_open_no_file_that_an_archive_names(filename):
    module = tsarchive.load(renamed_source(torch.jit.script(Outer()), filename))
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "{filename or "<unknown>"}", line ' in shown or not filename
    assert "return x.view(n, -1)  # the failing line" in shown or not filename
    assert "root:" not in shown


def test_an_archive_cannot_put_words_into_sources_of_this_process(tmp_path, monkeypatch):
    """``inspect.getsource`` of what is imported later finds the file, not the archive's text."""
    path = tmp_path / "imported_later.py"
    path.write_text("def harmless():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = tsarchive.load(renamed_source(torch.jit.script(Outer()), str(path)))
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    assert f'File "{path}", line ' in "".join(traceback.format_exception(caught.value))
    imported = importlib.import_module("imported_later")
    assert inspect.getsource(imported.harmless) == path.read_text()


def test_file_names_that_python_refuses_are_shown_escaped():
    module = tsarchive.load(renamed_source(torch.jit.script(Outer()), "a\0b.py"))
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    assert 'File "a\\0b.py", line ' in "".join(traceback.format_exception(caught.value))


def test_an_archive_cannot_change_source_that_others_have_recorded(monkeypatch):
    name = "<ipython-input-1>"
    entry = (20, None, ["def safe(a, b):\n", "    return a + b\n"], name)
    monkeypatch.setitem(linecache.cache, name, entry)
    module = tsarchive.load(renamed_source(torch.jit.script(Outer()), name))
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    assert f'File "{name}", line ' in "".join(traceback.format_exception(caught.value))
    assert linecache.cache[name] is entry
    assert entry[2] == ["def safe(a, b):\n", "    return a + b\n"]


def test_without_debug_records_generated_code_is_shown_alone():
    file = io.BytesIO()
    tsarchive.save(torch.jit.script(Outer()), file, debug=False)
    file.seek(0)
    module = tsarchive.load(file)
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 4), 3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert "the failing line" not in "".join(str(f.line) for f in frames)
    assert sum(f.filename.startswith("<tsarchive ") for f in frames) == 2


def test_errors_of_the_caller_stay_as_they_are():
    module = loaded(torch.jit.script(Outer()))
    with pytest.raises(tsarchive.CallError):
        module(torch.ones(2, 4), "three")


def test_errors_cross_threads():
    module = loaded(torch.jit.script(Outer()))
    found = []

    def call():
        try:
            module(torch.ones(2, 4), 3)
        except RuntimeError as error:
            found.append(traceback.extract_tb(error.__traceback__))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(line_of("the failing line") in [f.lineno for f in frames] for frames in found)


def test_type_errors_name_the_serialized_and_the_original_line():
    file = edited(torch.jit.script(Inner()), b"torch.view(x, [n, -1])", b'torch.view(x, "n")')
    module = tsarchive.load(file)
    with pytest.raises(SourceError) as caught:
        module(torch.ones(2, 4), 2)
    error = caught.value
    assert str(error.record).startswith("code/__torch__/")
    assert error.construct == 'return torch.view(x, "n")'
    line = line_of("the failing line")
    assert error.origin == f"{__file__}:{line}: return x.view(n, -1)  # the failing line"
    assert str(error).startswith(f"{error.record}:{error.line}: no overload of aten::view")
    assert f"  code: {error.construct}\n  from: {error.origin}" in str(error)


@pytest.mark.parametrize("damage", [b"", b"\x80\x02.", b"\x80\x02K\x01.", b"junk"])
def test_damaged_debug_records_hide_no_error(damage):
    """Places help to understand errors: they must not put another error in their place."""
    source = zipfile.ZipFile(io.BytesIO(torch_saved(torch.jit.script(Outer()))))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name in source.namelist():
            target.writestr(name, damage if name.endswith(".debug_pkl") else source.read(name))
    file.seek(0)
    module = tsarchive.load(file)
    with pytest.raises(RuntimeError, match="is invalid for input of size 8"):
        module(torch.ones(2, 4), 3)


def test_generated_code_is_visible():
    module = loaded(torch.jit.script(Outer()))
    classes: Classes = module.tsarchive_classes
    compiled = classes.compiler.function(module.tsarchive_class.methods["forward"]).compile()
    assert inspect.getsource(compiled) == source_of(compiled)
    assert inspect.getsource(module.forward) == source_of(compiled)
    assert inspect.getsource(type(module).forward) == source_of(compiled)
    assert str(inspect.signature(module.forward)) == "(x: Tensor, n: int) -> Tensor"


def test_a_debugger_stops_in_generated_code():
    module = loaded(torch.jit.script(Outer()))
    file = inspect.getfile(inspect.unwrap(module.inner.forward))
    seen = []

    class Stepper(bdb.Bdb):
        def user_line(self, frame):
            if frame.f_code.co_filename == file:
                seen.append((linecache.getline(file, frame.f_lineno).strip(), dict(frame.f_locals)))
            self.set_step()

    Stepper().runcall(module, torch.ones(2, 4), 2)
    lines = [line for line, _ in seen]
    assert "x = aten_view(x, n, -1)" in "\n".join(lines)
    assert any("n" in variables and variables["n"] == 2 for _, variables in seen)


class Selects(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList([Inner(), Inner()])

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x[n]

    @torch.jit.export
    def part(self, x: torch.Tensor, n: int) -> torch.Tensor:
        part: Views = self.parts[n]
        return part.forward(x, 1)


@torch.jit.interface
class Views(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        pass


def test_faults_of_operators_are_runtime_errors_as_in_torch():
    """Besides the class that eager code knows them by."""
    scripted = torch.jit.script(Selects())
    module = loaded(scripted)
    assert torch.equal(module.part(torch.ones(2), 1), torch.ones(1, 2))
    for method, argument, class_ in (("forward", 7, IndexError), ("part", -1, KeyError)):
        for side in (scripted, module):
            with pytest.raises(RuntimeError) as caught:
                getattr(side, method)(torch.ones(2), argument)
        assert isinstance(caught.value, class_)
        assert isinstance(caught.value, ScriptError)


def test_errors_of_python_hooks_stay_as_they_are():
    module = loaded(torch.jit.script(Outer()))
    mine = IndexError("mine")

    def hook(*_):
        raise mine

    module.inner.register_forward_hook(hook)
    with pytest.raises(IndexError) as caught:
        module(torch.ones(2, 4), 2)
    assert caught.value is mine
