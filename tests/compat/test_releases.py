"""Which torch loads a file: against the torch that is installed, and by tables for the others."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES, TORCH, records_of
from tsarchive import CallError, FormatError, UnsupportedError
from tsarchive.analyses.reading import Code
from tsarchive.container import NewRecord, write_container
from tsarchive.operators.registry import listed_versions

INSTALLED = ".".join(map(str, TORCH))
CODE, OWNER = "code/__torch__.py", "__torch__.PlaceholderModule"
FILES = sorted(
    path
    for folder in ("archives", "old", "removed", "legacy")
    for path in (FIXTURES / folder).rglob("*.pt")
    if ".io" not in path.name
)


def torch_loads(path) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.jit.load(path, map_location="cpu")
        except RuntimeError:
            return False
    return True


@pytest.mark.sample(12)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_installed_torch_does_what_is_told(path):
    row = tsarchive.compat(path, [INSTALLED]).row(INSTALLED)
    assert row.loads == torch_loads(path), row.reasons
    assert row.runs == (not row.reasons)


def archive_of(tmp_path, body, *, arguments="x: Tensor", returns="Tensor", version=3, more=""):
    """An archive with a module of one method; ``more`` definitions stand before it."""
    records = records_of((ARCHIVES / "script_function.pt").read_bytes())
    head = records[CODE].decode().partition("  def ")[0]
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{more}{head}  def forward(self: {OWNER}, {arguments}) -> {returns}:\n{lines}"
    kept = {n: d for n, d in records.items() if not n.endswith(("debug_pkl", "version", "_id"))}
    kept |= {CODE: text.encode(), "version" if version < 6 else ".data/version": b"%d\n" % version}
    path = tmp_path / "source.pt"
    write_container(path, [NewRecord(name, data) for name, data in kept.items()])
    return path


def span(report):
    """The first and the last release that load a file."""
    loading = [row.torch for row in report.rows if row.loads]
    return (loading[0], loading[-1]) if loading else None


NEWEST = listed_versions()[-1]
ATTENTION = "return torch.scaled_dot_product_attention(x, x, x)"
CASES = {
    "operator": (ATTENTION, {}, "operator", "aten::scaled_dot_product_attention", ("2.0", NEWEST)),
    "argument": (
        "return torch.gelu(x, approximate='none')",
        {"version": 10},
        "overload",
        "aten::gelu",
        ("1.12", NEWEST),
    ),
    "removed": ("return torch.cholesky_gone(x)", {}, "operator", "aten::cholesky_gone", None),
    "library": ("return ops.torchvision.nms(x, x, 0.5)", {}, "library", "torchvision::nms", None),
    "construct": (
        "return x",
        {"arguments": "x: Union[Tensor, int]", "returns": "Union[Tensor, int]"},
        "construct",
        "the type Union",
        ("1.10", NEWEST),
    ),
    "none type": (
        "return None",
        {"returns": "NoneType"},
        "construct",
        "the types NoneType and Tuple[()]",
        ("1.9", NEWEST),
    ),
    "format": ("return x", {"version": 10}, "format", "file format", ("1.12", NEWEST)),
}


@pytest.mark.parametrize(
    ("body", "options", "kind", "about", "releases"), CASES.values(), ids=CASES
)
def test_what_stands_in_the_way_is_told(tmp_path, body, options, kind, about, releases):
    report = tsarchive.compat(archive_of(tmp_path, body, **options))
    assert [row.torch for row in report.rows] == [*listed_versions()]
    assert span(report) == releases
    place = listed_versions().index(releases[0]) - 1 if releases else -1
    row = report.rows[place]
    (reason,) = [each for each in row.reasons if each.kind == kind]
    assert reason.about == about
    assert reason.since == (releases[0] if releases else None)
    assert kind in ("format", "construct") or (reason.record, reason.code) == (CODE, body)


def test_the_line_is_that_of_the_record_and_of_the_user():
    (row,) = tsarchive.compat(ARCHIVES / "with_profiler.pt", ["1.11"]).rows
    reason = next(r for r in row.reasons if r.kind == "operator")
    text = records_of((ARCHIVES / "with_profiler.pt").read_bytes())[reason.record].decode()
    assert text.split("\n")[reason.line - 1].strip() == reason.code
    assert reason.source is not None
    assert reason.source.filename.endswith("profiler.py")
    assert reason.source.text.startswith("self.record = ")
    assert reason.since == "1.12"


def test_a_library_that_is_missing_is_told_apart(tmp_path):
    path = archive_of(tmp_path, "return ops.torchvision.nms(x, x, 0.5)")
    report = tsarchive.compat(path, ["1.5", "2.9"])
    assert [(row.loads, row.needs) for row in report.rows] == [
        (False, ()),  # it lacks more than the library
        (False, ("torchvision",)),
    ]
    assert "torchvision" in report.libtorch[0].hint


def test_code_that_never_runs_stands_in_no_way(tmp_path):
    body = "if False:\n  y = torch.no_such_operator(x)\nelse:\n  y = x\nreturn y"
    assert tsarchive.compat(archive_of(tmp_path, body), ["2.9"]).loads


def test_one_fault_is_no_other(tmp_path):
    """What an unknown operator gives is in no way of the calls that it is given to."""
    body = "y = torch.no_such_operator(x)\nreturn torch.relu(torch.add(y, x))"
    (row,) = tsarchive.compat(archive_of(tmp_path, body), ["2.9"]).rows
    assert [reason.about for reason in row.reasons] == ["aten::no_such_operator"]


@pytest.mark.parametrize(("version", "kept"), [(3, ("aten::div.Tensor",)), (4, ())])
def test_older_meanings_are_told(version, kept, tmp_path):
    path = archive_of(tmp_path, "return torch.div(x, x)", version=version)
    assert tsarchive.compat(path, [NEWEST]).kept_meanings == kept


def test_lists_of_weights_load_and_do_not_run():
    path = FIXTURES / "old" / "1.4.0" / "jit_quantized_lstm.pt"
    before, after = tsarchive.compat(path, ["1.11", "1.12"]).rows
    assert (before.loads, before.runs) == (True, True)
    assert (after.loads, after.runs) == (True, False)
    assert "only raises an error" in after.reasons[0].text


@pytest.mark.parametrize("name", ["sequential", "with_profiler", "quantized_static_linear"])
def test_releases_that_answer_alike_read_alike(name, monkeypatch):
    """Reading once for releases that answer alike gives what reading for each does."""
    path = ARCHIVES / f"{name}.pt"
    shared = tsarchive.compat(path).rows
    monkeypatch.setattr(Code, "read_by", lambda self, release: self.code_of(release).reading)
    assert tsarchive.compat(path).rows == shared


READINGS = {
    "nothing that changed": ("return torch.relu(torch.add(x, x, alpha=2))", 3, 1),
    "an operator with an old meaning": ("return torch.div(x, x)", 3, 2),
    "the same in a file that is too new for it": ("return torch.div(x, x)", 10, 1),
    "an operator that came later": (ATTENTION, 3, 2),
}


@pytest.mark.parametrize("name", READINGS)
def test_code_is_lowered_once_for_releases_that_mean_the_same(name, tmp_path, monkeypatch):
    body, version, expected = READINGS[name]
    path, lower, lowered = archive_of(tmp_path, body, version=version), Code.code_of, []
    monkeypatch.setattr(
        Code, "code_of", lambda self, release: (lowered.append(release), lower(self, release))[1]
    )
    tsarchive.compat(path)
    assert len(lowered) == expected


@pytest.mark.sample(6)
@pytest.mark.parametrize("release", ["1.8", "1.13", INSTALLED])
@pytest.mark.parametrize("name", ["phone_lite.ptl", "raises.pt", "quantized_conv.pt", "frozen.pt"])
def test_plans_are_what_a_conversion_does(name, release, tmp_path):
    for folder in ("2.12.1", "1.13.0", "1.12.0"):
        path = FIXTURES / "old" / folder / name
        if not path.exists():
            continue
        plan = tsarchive.compat(path, [release]).row(release).plan
        if plan is None:
            continue
        if plan.works:
            done = tsarchive.convert(path, tmp_path / "converted.pt", for_torch=release)
            assert (plan.rewritten, plan.left_out) == (done.rewritten, done.left_out)
            continue
        with pytest.raises(tsarchive.TargetError) as refused:
            tsarchive.convert(path, tmp_path / "converted.pt", for_torch=release)
        assert plan.refusals == tuple(map(str, refused.value.obstacles))


DTYPES = {
    "complex64": "1.6", "float8_e4m3fn": "2.1", "float8_e5m2fnuz": "2.2", "uint16": "2.3",
    "float8_e8m0fnu": "2.7",
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "first"), DTYPES.items())
def test_newer_dtypes_are_told(dtype, first):
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            made = torch.zeros(8, dtype=torch.uint8).view(getattr(torch, dtype))
            self.register_buffer("held", made)

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Held()), stream)
    stream.seek(0)
    assert span(tsarchive.compat(stream)) == (first, NEWEST)


def test_a_missing_storage_stands_in_every_way(tmp_path):
    records = records_of((ARCHIVES / "buffers.pt").read_bytes())
    lost = next(name for name in records if name.startswith("data/"))
    kept = [
        NewRecord(n, d) for n, d in records.items() if n != lost and not n.startswith(".data/s")
    ]
    path = tmp_path / "cut.pt"
    write_container(path, kept)
    report = tsarchive.compat(path)
    assert span(report) is None
    assert [(r.kind, r.about) for r in report.rows[-1].reasons] == [("record", lost)]


def test_archives_of_before_torch_1_3_are_read_by_few():
    report = tsarchive.compat(FIXTURES / "legacy" / "arithmetic-1.2.0.pt")
    assert span(report) == ("1.4", "1.10")
    assert report.notes


def test_bytecode_is_told_for_the_interpreter():
    report = tsarchive.compat(FIXTURES / "old" / "2.12.1" / "phone_lite.ptl")
    assert report.facts["bytecode"] == "8"
    loading = [row.torch for row in report.mobile if row.loads]
    assert (loading[0], loading[-1]) == ("2.0", "2.12")
    assert report.mobile[-1].reasons[0].about == "prepacked::conv2d_clamp_run"


PT2 = {
    "pt2/linear.pt2": ("2.9", NEWEST),
    "pt2/linear-2.8.pt2": ("2.8", "2.15"),
    "pt2_old/2.1.2/counter.pt2": ("2.1", "2.1"),
    "pt2_old/2.2.2/counter.pt2": ("2.2", "2.2"),
    "pt2/two_models.pt2": None,
}


@pytest.mark.parametrize(("name", "releases"), PT2.items())
def test_programs_of_torch_export_are_read_by_their_schema(name, releases):
    assert span(tsarchive.compat(FIXTURES / name)) == releases


@pytest.mark.parametrize("name", ["linear", "two_models", "control_flow"])
def test_the_installed_torch_loads_the_programs_that_are_told(name):
    path = FIXTURES / "pt2" / f"{name}.pt2"
    try:
        torch.export.load(path)
    except (KeyError, RuntimeError):
        loads = False
    else:
        loads = True
    assert tsarchive.compat(path, [INSTALLED]).loads == loads


def test_programs_of_executorch_are_told_for_its_runtimes():
    report = tsarchive.compat(FIXTURES / "executorch" / "add.pte")
    assert report.rows == ()
    assert not report.loads
    assert report.mobile[-1].loads
    assert report.notes


def test_no_torch_is_imported():
    program = (
        "import sys, tsarchive\n"
        "for file in sys.argv[1:]:\n"
        "    tsarchive.compat(file, ['1.8', '2.9'])\n"
        "assert 'torch' not in sys.modules\n"
    )
    files = ("archives/trace_shapes.pt", "pt2/linear.pt2", "executorch/add.pte")
    paths = [str(FIXTURES / file) for file in files]
    subprocess.run([sys.executable, "-c", program, *paths], check=True)


@pytest.mark.parametrize("versions", [["2.99"], [], "2.9", ["nine"]])
def test_versions_that_are_not_known_are_refused(versions):
    with pytest.raises(CallError):
        tsarchive.compat(ARCHIVES / "views.pt", versions)


HOSTILE = sorted(path for path in (FIXTURES / "hostile").rglob("*") if path.is_file())


@pytest.mark.sample(12)
@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.name)
def test_hostile_files_give_a_report_or_an_error_of_ours(path):
    try:
        report = tsarchive.compat(path, [NEWEST])
    except tsarchive.ArchiveError as error:
        told = error.message
    else:
        told = report.kind
    assert told


def test_files_of_other_kinds_are_refused():
    with pytest.raises(FormatError):
        tsarchive.compat(io.BytesIO(b"no archive"))
    with pytest.raises(UnsupportedError):
        tsarchive.compat(FIXTURES / "executorch" / "data.ptd")


def test_a_file_object_will_do():
    stream = io.BytesIO((ARCHIVES / "views.pt").read_bytes())
    assert tsarchive.compat(stream, ["2.9"]).row("2.9.1").loads
    with pytest.raises(CallError):
        tsarchive.compat(ARCHIVES / "views.pt", ["2.9"]).row("2.8")


def test_a_module_is_told_of_as_the_file_that_save_writes():
    module = torch.jit.trace(nn.Linear(2, 2), torch.ones(3, 2))
    stream = io.BytesIO()
    tsarchive.save(module, stream)
    stream.seek(0)
    found, wanted = tsarchive.compat(module), tsarchive.compat(stream)
    assert found.kind == wanted.kind == "torchscript"
    assert [(row.torch, row.loads) for row in found.rows] == [
        (row.torch, row.loads) for row in wanted.rows
    ]


def test_a_state_dict_holds_no_code():
    state, stream = nn.Linear(2, 2).state_dict(), io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    with pytest.raises(UnsupportedError, match=r"a torch\.save checkpoint holds no code") as raised:
        tsarchive.compat(stream)
    assert raised.value.hint
    with pytest.raises(CallError, match="a state dict holds no code"):
        tsarchive.compat(state)
    with pytest.raises(UnsupportedError, match=r"a data file has no program.*Give the \.pte file"):
        tsarchive.compat(FIXTURES / "executorch" / "data.ptd")
