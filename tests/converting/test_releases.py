"""TorchScript for the newest torch, and for other releases.

Code is checked without these releases: each call has to be one of their schemas, and to read as
the same call with them alone. What the installed torch runs is compared with what was converted.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from functools import partial

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES, TORCH, records_of
from tests.support.comparing import equal
from tsarchive import CallError, Policy, TargetError
from tsarchive.container import NewRecord, write_container
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType, FunctionType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import walk
from tsarchive.ir.types import TENSOR, annotation
from tsarchive.operators import older_forms
from tsarchive.operators.older_forms import older_functions, older_names
from tsarchive.operators.overloads import class_of, overloads_of
from tsarchive.operators.registry import listed_versions, schema_texts, versions_of
from tsarchive.operators.releases import newest_release, release_named
from tsarchive.operators.upgraders import Age
from tsarchive.run.natives import NATIVES

INSTALLED = ".".join(map(str, TORCH))
RELEASES = ["1.4", "1.5", "1.6", "1.8", "1.10", "1.12", "2.0", "2.9", INSTALLED]
NAMES = sorted(p.stem for p in ARCHIVES.glob("*.pt") if ".io" not in p.name)
CODE, OWNER = "code/__torch__.py", "__torch__.PlaceholderModule"


def converted(source, tmp_path, release=None):
    """The records of what an archive is converted to, and what the conversion tells."""
    out = tmp_path / "converted.pt"
    done = tsarchive.convert(source, out, for_torch=release)
    return records_of(out.read_bytes()), done, out


def scripted(
    tmp_path, body, *, arguments="x: Tensor", returns="Tensor", version=10, more="", older=False
):
    """An archive with a module of one method; ``more`` functions stand behind it.

    With ``older`` it has the functions for older releases, too.
    """
    path = tmp_path / "source.pt"
    records = records_of((ARCHIVES / "script_function.pt").read_bytes())
    head = records[CODE].decode().partition("  def ")[0]
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{head}  def forward(self: {OWNER}, {arguments}) -> {returns}:\n{lines}{more}"
    records = {n: d for n, d in records.items() if not n.endswith(("debug_pkl", "version", "_id"))}
    records[CODE] = text.encode()
    if older:
        records[older_forms.RECORD] = re.sub("#.*\n", "", older_forms.text()).encode()
    records["version" if version < 6 else ".data/version"] = b"%d\n" % version
    write_container(path, [NewRecord(name, data) for name, data in records.items()])
    return path


def text_of(records):
    """The text of all code records."""
    return "".join(records[n].decode() for n in sorted(records) if n.endswith(".py"))


def code_as_of(records, release):
    """The code as a release reads it: with its operators, of its format, and nothing else."""
    version = int(records.get(".data/version") or records["version"])
    texts = {name: data.decode() for name, data in records.items() if name.endswith(".py")}
    return CodeImporter(
        texts,
        operators=partial(overloads_of, version=release),
        constant=lambda index: (TableConstant(index), TENSOR),
        version=version,
        native_class=class_of,
        evaluate=lambda schema: NATIVES.get(schema.full_name),
        age=Age(release_named(release).operator_version, revives=False),
    )


def functions_of(code, texts):
    for record in texts:
        for named in code.define_all(record).values():
            if isinstance(named, FunctionType):
                yield named.function
            elif isinstance(named, ClassType):
                yield from (*named.methods.values(), *named.hooks())


def check_operators(records, release):
    """Every operator is one that the release registers, by its schema."""
    code = code_as_of(records, release)
    for function in functions_of(code, [n for n in records if n.endswith(".py")]):
        for node in walk(function.graph.nodes):
            if node.schema is not None and versions_of(node.kind):
                heads = [text.partition("(")[0] for text in schema_texts(node.kind, release)]
                is_own = node.schema in overloads_of(node.kind, release)
                assert is_own or node.operator in heads, node.operator


def check_obstacles(error, source, release):
    """Each names a line that there is, and a later release."""
    assert error.obstacles
    records = records_of(source.read_bytes())
    for obstacle in error.obstacles:
        assert obstacle.record in records
        assert str(obstacle) in str(error)
        since = obstacle.since
        assert since is None or release_named(since) > release_named(release)
        if obstacle.line:
            lines = records[obstacle.record].decode().split("\n")
            assert lines[obstacle.line - 1].strip() == obstacle.construct


@pytest.mark.sample(40)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", NAMES)
def test_archives_are_written_for_a_release_or_refused_by_line(name, release, tmp_path):
    source = ARCHIVES / f"{name}.pt"
    try:
        records, _, _ = converted(source, tmp_path, release)
    except TargetError as error:
        check_obstacles(error, source, release)
        return
    most = release_named(release).newest_format
    assert int(records.get(".data/version") or records["version"]) <= most
    if "CONSTANTS" not in text_of(records):  # whose types are known once they are loaded
        check_operators(records, release)


@pytest.mark.sample(12)
@pytest.mark.parametrize("release", [None, INSTALLED])
@pytest.mark.parametrize("name", NAMES)
def test_what_needs_nothing_is_as_a_save_gives_it(name, release, tmp_path):
    source = ARCHIVES / f"{name}.pt"
    records, done, _ = converted(source, tmp_path, release)
    saved = io.BytesIO()
    tsarchive.save(tsarchive.load(source), saved)
    assert done.rewritten == ()
    kept = records_of(saved.getvalue())
    for of in (records, kept):
        of.pop(".data/serialization_id")
    assert list(records.items()) == list(kept.items())


def _rows(*rows):
    return [pytest.param(*row, id=f"{row[0]} {row[1][:40]}") for row in rows]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("release", "before", "after"),
    _rows(
        # Defaults that came later are left out, and those of before are said where others follow.
        ("1.8", 'torch.gelu(x, approximate="none")', "torch.gelu(x)"),
        ("1.7", "torch.slice(x, 0, None, None, 2)", "torch.slice(x, 0, 0, 9223372036854775807, 2)"),
        ("1.7", "torch.slice(x, 0, 1)", "torch.slice(x, 0, 1)"),
        ("1.4", "torch.clamp(x, 0)", "torch.clamp(x, 0)"),
        # Divisions: 1.4 and 1.5 divided whole numbers as such, 1.6 refused to.
        ("1.6", "torch.div(x, x)", "torch.true_divide(x, x)"),
        ("1.5", "torch.div_(x, 2)", "torch.true_divide_(x, 2)"),
        ("1.5", "torch.div(x, 2)", "torch.true_divide(x, 2)"),
        ("1.7", "torch.div(x, x)", "torch.div(x, x)"),
        ("1.4", "torch.div(x, x)", "__torch__.older_forms.true_quotient"),
        ("1.4", "torch.div(x, 2)", "__torch__.older_forms.true_quotient_by_number"),
        ("1.12", "torch.floor_divide(x, x)", "__torch__.older_forms.floored_quotient"),
        ("1.13", "torch.floor_divide(x, x)", "torch.floor_divide(x, x)"),
        # What is filled has said its dtype.
        ("1.6", "torch.full([2], 3)", "torch.full([2], 3, dtype=4)"),
        ("1.6", "torch.full([2], 3.)", "torch.full([2], 3.)"),
        ("1.7", "torch.full([2], 3)", "torch.full([2], 3)"),
        ("1.5", "torch.tensor(1.5, dtype=6)", "torch.tensor(1.5, dtype=6)"),
        ("1.5", "torch.tensor(1)", "torch.tensor(1)"),
        # Aliases have an older name.
        ("1.9", "torch.concat([x, x])", "torch.cat([x, x])"),
        ("1.6", "torch.multiply(x, x)", "torch.mul(x, x)"),
        ("1.7", "torch.swapaxes(x, 0, 1)", "torch.transpose(x, 0, 1)"),
        ("1.8", "torch.special_expit(x)", "torch.sigmoid(x)"),
        ("1.6", "torch.silu(x)", "__torch__.older_forms.silu"),
        # Operators that torch removed, where it had removed them.
        ("1.12", "torch.cholesky(x)", "torch.cholesky(x)"),
        ("2.15", "torch.cholesky(x)", "__torch__.removed_from_torch.cholesky"),
    ),
)
def test_calls_are_written_as_a_release_has_them(release, before, after, tmp_path):
    source = scripted(tmp_path, f"return {before}")
    records, done, out = converted(source, tmp_path, release)
    assert after in text_of(records)
    assert bool(done.rewritten) == (before != after)
    check_operators(records, release)
    assert tsarchive.verify(out).ok


@pytest.mark.whole
@pytest.mark.parametrize(
    ("release", "code", "reason", "since"),
    _rows(
        ("1.11", 'torch.gelu(x, approximate="tanh")', "without some of these arguments", "1.12"),
        ("1.7", "torch.floor_divide(x, x)", "aten::floor_divide means something else", "1.8"),
        ("1.7", 'torch.div(x, x, rounding_mode="floor")', "without some of these arguments", "1.8"),
        ("1.5", "torch.tensor(1.5)", "aten::tensor.float means something else", "1.6"),
        ("1.6", "torch.linalg_eigh(x)[0]", "has no operator aten::linalg_eigh", "1.8"),
        ("1.4", "torch.silu(torch.linalg_inv_ex(x)[0])", "no operator aten::linalg_inv_ex", "1.9"),
    ),
)
def test_what_cannot_be_said_is_refused(release, code, reason, since, tmp_path):
    source = scripted(tmp_path, f"y = {code}\nz = {code}\nreturn torch.add(y, z)")
    with pytest.raises(TargetError, match=re.escape(reason)) as caught:
        converted(source, tmp_path, release)
    found = [obstacle for obstacle in caught.value.obstacles if obstacle.since == since]
    assert len(found) == len({obstacle.line for obstacle in found}) == 2
    assert not (tmp_path / "converted.pt").exists()


def test_code_that_cannot_be_read_is_kept_or_refused(tmp_path):
    """By default what this process does not know is not judged, as long as nothing else changes."""
    other = "def other(x: Tensor) -> Tensor:\n  return ops.nowhere.other(x)\n"
    source = scripted(tmp_path, "return ops.nowhere.one(x)", more=other)
    before = text_of(records_of(source.read_bytes()))
    records, _, _ = converted(source, tmp_path)
    assert text_of(records) == before
    with pytest.raises(TargetError) as caught:
        converted(source, tmp_path, "2.9")
    found = {obstacle.line: obstacle for obstacle in caught.value.obstacles}
    assert {each.operator for each in found.values()} == {"nowhere::one", "nowhere::other"}
    assert all(each.operator in each.reason for each in found.values())
    assert all("ops.nowhere." in each.construct for each in found.values())
    assert len(found) == 2
    assert caught.value.message.startswith("the archive cannot be checked for torch 2.9:")
    assert "It comes with a library that defines the namespace 'nowhere'" in caught.value.hint


def test_only_some_of_what_stands_in_the_way_is_unregistered(tmp_path):
    other = "def other(x: Tensor) -> Tensor:\n  return ops.nowhere.other(x)\n"
    source = scripted(tmp_path, "return torch.linalg_eigh(x)[0]", more=other)
    with pytest.raises(TargetError, match=r"torch 1\.6 cannot load this archive") as caught:
        converted(source, tmp_path, "1.6")
    assert "'nowhere'" in caught.value.hint
    assert caught.value.hint.endswith("Give a later version, or change these lines in the source")


def test_versions_are_strings(tmp_path):
    expected = 'for_torch is a string, such as "1.13", not the float 1.13'
    with pytest.raises(CallError, match=re.escape(expected)):
        tsarchive.convert(ARCHIVES / "raise_message.pt", tmp_path / "new.pt", for_torch=1.13)


PACKED = """\
class Packed(Module):
  __parameters__ = []
  training : bool
  param : Tensor
  def __getstate__(self: __torch__.Packed) -> Tuple[Tensor, bool]:
    w, _ = ops.quantized.linear_unpack(self.param)
    return (w, self.training)
  def __setstate__(self: __torch__.Packed, state: Tuple[Tensor, bool]) -> None:
    self.param = ops.quantized.linear_prepack((state)[0], None)
    self.training = (state)[1]
    return None
"""


@pytest.mark.parametrize("release", [None, "2.15", "1.13", "1.12", "1.11", "1.6"])
def test_packed_weights_in_tensors_are_refused_where_torch_does(release, tmp_path):
    """Dynamic recurrent layers of torch 1.4 and 1.5 declare them so; torch 1.6 to 1.11 run it."""
    source = scripted(tmp_path, "return x", version=3, more=PACKED)
    if release in ("1.11", "1.6"):
        records, _, _ = converted(source, tmp_path, release)
        assert "ops.quantized.linear_prepack(" in text_of(records)
        return
    with pytest.raises(TargetError, match="does not take packed weights for tensors") as caught:
        converted(source, tmp_path, release)
    places = [obstacle.construct for obstacle in caught.value.obstacles]
    assert any(text.startswith("self.param = ") for text in places)
    assert caught.value.hint == "Change these lines in the source"


def test_old_meanings_stay_where_a_release_upgrades_them(tmp_path):
    """A method of an archive of version 3 divides whole numbers as such, in each torch."""
    source = scripted(tmp_path, "return torch.div(x, x)", version=3)
    for release in ("2.15", "2.9", "1.8", "1.6", "1.5"):
        records, done, out = converted(source, tmp_path, release)
        assert "return torch.div(x, x)\n" in text_of(records)
        assert records["version"] == b"3\n"
        assert done.rewritten == ()
    assert tsarchive.load(out)(torch.tensor([7])).dtype == torch.int64
    records, _, _ = converted(source, tmp_path, "1.4")
    assert records["version"] == b"2\n"
    assert "return torch.div(x, x)\n" in text_of(records)


def test_versions_say_what_functions_mean_in_some_releases(tmp_path):
    """From 1.6 to 1.10 torch took functions of old archives for old code, too."""
    functions = "def half(x: Tensor) -> Tensor:\n  return torch.div(x, 2)\n"
    source = scripted(tmp_path, "return __torch__.half(x, )", version=3, more=functions)
    for release, wanted in (("1.5", "true_divide"), ("1.8", "true_divide"), ("1.11", "div")):
        records, _, _ = converted(source, tmp_path, release)
        assert f"return torch.{wanted}(x, 2)\n" in text_of(records).replace("_0 = ", "return ")


def test_the_version_is_raised_where_nothing_means_what_it_did(tmp_path):
    source = scripted(tmp_path, "return torch.floor_divide(x, x)", version=3)
    records, _, _ = converted(source, tmp_path, "1.8")
    assert records["version"] == b"5\n"
    assert 'rounding_mode="floor"' in text_of(records)


def test_classes_are_written_as_a_release_reads_them(tmp_path):
    source = ARCHIVES / "shared_child.pt"
    today, _, _ = converted(source, tmp_path, "1.9")
    assert "NoneType" in text_of(today)
    assert "__buffers__" in text_of(today)
    assert any(name.endswith(".debug_pkl") for name in converted(source, tmp_path, "1.11")[0])
    older, _, out = converted(source, tmp_path, "1.8")
    assert "NoneType" not in text_of(older)
    assert "_is_full_backward_hook : None\n" in text_of(older)
    assert "Final[" in text_of(older)
    assert not any(name.endswith(".debug_pkl") for name in older)
    oldest, _, out = converted(source, tmp_path, "1.4")
    assert not re.search(r"__buffers__|Final\[", text_of(oldest))
    x = torch.ones(1, 2)
    assert equal(tsarchive.load(out)(x), tsarchive.load(source)(x))
    assert tsarchive.verify(out).ok


def test_types_of_lists_and_dicts_are_not_told_to_the_oldest(tmp_path):
    source = ARCHIVES / "shared_containers.pt"
    records, _, out = converted(source, tmp_path, "1.4")
    assert b"restore_type_tag" not in records["data.pkl"]
    kept, given = tsarchive.load(out), tsarchive.load(source)
    assert kept.first == given.first
    assert kept.table == given.table if hasattr(given, "table") else True


def test_empty_tuples_have_an_older_spelling(tmp_path):
    source = scripted(tmp_path, "return ()", returns="Tuple[()]")
    records, _, out = converted(source, tmp_path, "1.8")
    assert "-> Tuple[]:" in text_of(records)
    assert tsarchive.load(out)(torch.ones(1)) == ()
    assert torch.jit.load(out)(torch.ones(1)) == ()
    records, _, _ = converted(source, tmp_path, "1.9")
    assert "-> Tuple[()]:" in text_of(records)


def test_a_string_that_looks_like_a_type_stays(tmp_path):
    body = 'y = annotate(Tuple[], ())\nreturn ("Tuple[]", "\\"Tuple[]")'
    source = scripted(tmp_path, body, returns="Tuple[str, str]")
    assert tsarchive.load(source)(torch.ones(1)) == ("Tuple[]", '"Tuple[]')


CALLS_OF_REMOVED = sorted(path.stem for path in (FIXTURES / "removed").glob("*.io.pt"))


@pytest.mark.parametrize("torch_version", [name.removesuffix(".io") for name in CALLS_OF_REMOVED])
@pytest.mark.filterwarnings("ignore")
def test_removed_operators_give_what_they_gave(torch_version, tmp_path):
    """torch.jit of the newest torch reads what is written, and it gives the same, to the bit."""
    source = FIXTURES / "removed" / f"{torch_version}.pt"
    records, done, out = converted(source, tmp_path)
    gone = {calls.operator for calls in done.rewritten}
    newest = newest_release().name
    assert gone
    check_operators(records, newest)
    module, before = (tsarchive.load(each, policy=Policy.trusted()) for each in (out, source))
    theirs = torch.jit.load(out) if newest == INSTALLED else None
    calls = torch.load(FIXTURES / "removed" / f"{torch_version}.io.pt", weights_only=True)
    for method, call in calls.items():
        found = [_result(each, method, call["arguments"]) for each in (before, module, theirs)]
        assert equal(found[0], found[1]), method
        if theirs is not None and not isinstance(found[0], str):
            assert equal(found[0], found[2]), method


@pytest.mark.parametrize("torch_version", ["1.7", "1.13"])
@pytest.mark.filterwarnings("ignore")
def test_transforms_of_real_tensors_run_in_torch_2(torch_version, tmp_path):
    source = FIXTURES / "removed" / f"{torch_version}.pt"
    calls = torch.load(FIXTURES / "removed" / f"{torch_version}.io.pt", weights_only=True)
    _, done, out = converted(source, tmp_path, INSTALLED)
    assert {"aten::stft", "aten::istft"} <= {call.operator for call in done.rewritten}
    module = torch.jit.load(out)
    names = [name for name in calls if "of_real" in name or "istft" in name]
    assert len(names) > 4
    for name in names:
        found = getattr(module, name)(*calls[name]["arguments"])
        torch.testing.assert_close(found, calls[name]["expected"])


UNTOLD = "torch.istft(torch.stft(x, 4, None, None, None, False), 4)"
TOLD = "torch.stft(x, 4, None, None, None, False, None, {})"


def scripted_by_torch_1(tmp_path, expression):
    source = scripted(tmp_path, f"return {expression}")
    records = records_of(source.read_bytes())
    with zipfile.ZipFile(source, "w") as archive:
        for name, data in records.items():
            if name not in ("byteorder", ".data/serialization_id"):
                archive.writestr(f"source/{name}", data)
    return source


@pytest.mark.parametrize(
    ("expression", "release", "operators"),
    [
        (UNTOLD, INSTALLED, {"aten::stft", "aten::istft"}),
        (UNTOLD, "1.13", set()),
        (TOLD.format("True"), INSTALLED, set()),
        (TOLD.format("False"), INSTALLED, set()),
        (TOLD.format("None"), INSTALLED, {"aten::stft"}),
    ],
)
def test_transforms_change_where_torch_2_may_refuse_them(expression, release, operators, tmp_path):
    source = scripted_by_torch_1(tmp_path, expression)
    _, done, _ = converted(source, tmp_path, release)
    assert {call.operator for call in done.rewritten} == operators


def test_transforms_of_torch_2_stay(tmp_path):
    source = scripted(tmp_path, f"return {UNTOLD}")
    records, done, _ = converted(source, tmp_path, INSTALLED)
    assert not done.rewritten
    assert records[CODE] == records_of(source.read_bytes())[CODE]


@pytest.mark.filterwarnings("ignore:torch.lu_solve")
def test_solve_is_written_for_the_release_that_lacks_it_first(tmp_path):
    """Torch 1.12 lacks the step that writes it for later ones, too."""
    body = "a, b = torch.solve(x, torch.add(torch.eye(2), 1))\nreturn a"
    records, _, out = converted(scripted(tmp_path, body), tmp_path, "1.12")
    check_operators(records, "1.12")
    expected = torch.linalg.solve(torch.eye(2) + 1, X)
    for module in (tsarchive.load(out), torch.jit.load(out)):
        torch.testing.assert_close(module(X), expected)


def write(records, path):
    made_by_the_writer = ".data/serialization_id"
    kept = [NewRecord(n, d) for n, d in records.items() if n != made_by_the_writer]
    write_container(path, kept)


_OTHERS = {
    "symeig": """\
def symeig(self: Tensor, eigenvectors: bool, upper: bool) -> Tuple[Tensor, Tensor]:
  return (self, self)
""",
    "syevd_helper": """\
class syevd_helper:
  def other(self: __torch__.removed_from_torch.syevd_helper) -> Tensor:
    return torch.zeros([1])
""",
}


@pytest.mark.parametrize("name", _OTHERS)
def test_functions_of_the_archive_do_not_stand_for_removed_operators(name, tmp_path):
    source = scripted(tmp_path, "a, b = torch.symeig(x, True, True)\nreturn a")
    record = "code/__torch__/removed_from_torch.py"
    records = {**records_of(source.read_bytes()), record: _OTHERS[name].encode()}
    write(records, source)
    with pytest.raises(TargetError, match=f"another __torch__.removed_from_torch.{name} "):
        converted(source, tmp_path)


def test_functions_that_the_archive_has_already_stand_for_removed_operators(tmp_path):
    source = scripted(tmp_path, "a, b = torch.symeig(x, True, True)\nreturn a")
    before = records_of(source.read_bytes())
    once, _, _ = converted(source, tmp_path)
    write({**once, CODE: before[CODE]}, source)
    again, done, _ = converted(source, tmp_path)
    assert {n: again[n] for n in again if n.startswith("code/")} == {
        n: once[n] for n in once if n.startswith("code/")
    }
    assert [call.operator for call in done.rewritten] == ["aten::symeig"]


def _result(module, method, arguments):
    """What a call gives, or the class of what it raises; None without a module."""
    if module is None:
        return None
    torch.manual_seed(0)
    given = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    try:
        return getattr(module, method)(*given)
    except Exception as error:
        return type(error).__name__


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_torch_gives_the_same_for_its_own_release(name, tmp_path):
    source = ARCHIVES / f"{name}.pt"
    _, _, out = converted(source, tmp_path, torch.__version__)
    calls = torch.load(ARCHIVES / f"{name}.io.pt", weights_only=True)
    modules = torch.jit.load(source), torch.jit.load(out)
    for method, rows in calls.items():
        for row in rows:
            found = [_called(module, method, row) for module in modules]
            assert equal(*found)


def _called(module, method, row):
    torch.manual_seed(0)
    run = module if method == "forward" else getattr(module, method)
    try:
        return run(*row["args"], **row["kwargs"])
    except RuntimeError as error:
        return str(error).splitlines()[-1]


@pytest.mark.parametrize("name", ["2.9", "2.9.1", "2.9.1+cpu", "1.4.0", INSTALLED])
def test_releases_are_named_by_their_versions(name, tmp_path):
    assert release_named(name).name == ".".join(name.split(".")[:2])
    tsarchive.convert(ARCHIVES / "sequential.pt", tmp_path / "out.pt", for_torch=name)


@pytest.mark.parametrize("name", ["1.3", "3.0", "2", "", "two", "2.9.1; rm", "2.\u0669"])
def test_other_releases_are_not_known(name, tmp_path):
    with pytest.raises(CallError, match="not known") as caught:
        tsarchive.convert(ARCHIVES / "sequential.pt", tmp_path / "out.pt", for_torch=name)
    first, *_, last = listed_versions()
    assert caught.value.hint == f"Give a version from {first} to {last}, such as 2.9"


def test_only_torchscript_is_written_for_releases(tmp_path):
    with pytest.raises(CallError, match="only TorchScript"):
        tsarchive.convert(ARCHIVES / "sequential.pt", tmp_path / "out.pt2", for_torch="2.9")


def test_programs_of_export_are_written_for_releases(tmp_path):
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    path = tmp_path / "net.pt"
    done = tsarchive.convert(program, path, for_torch="1.13")
    assert done.kind == "torchscript"
    check_operators(records_of(path.read_bytes()), "1.13")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.jit.load(path)(torch.ones(1, 3))
    assert torch.allclose(found, program.module()(torch.ones(1, 3)))


def test_archives_of_before_torch_1_3_are_written_for_releases(tmp_path):
    source = FIXTURES / "legacy" / "arithmetic-1.1.0.pt"
    for release in ("1.5", "2.9"):
        records, _, _ = converted(source, tmp_path, release)
        check_operators(records, release)


X = torch.arange(-5.0, 7.0).reshape(2, 6) / 4
MASK = torch.arange(4).reshape(2, 2) > 1
OLDER = {
    "aten::div.Tensor": [(X, X + 9), (torch.arange(4), torch.arange(1, 5))],
    "aten::div.Scalar": [(X, 4), (torch.arange(4), 4), (torch.arange(4), 0.5)],
    "aten::floor_divide": [(X, X + 9), (torch.arange(-4, 4), torch.full([8], 3))],
    "aten::floor_divide.Scalar": [(X, 0.3), (torch.arange(-4, 4), 3)],
    "aten::floor_divide_.Tensor": [(X, X + 9), (torch.arange(-4, 4), torch.full([8], 3))],
    "aten::floor_divide_.Scalar": [(X, 0.3), (torch.arange(-4, 4), 3)],
    **{
        f"aten::{name}": [(X,), (X.double() * 9,)]
        for name in ("silu", "silu_", "mish", "mish_", "hardswish", "hardsigmoid", "square", "mT")
    },
    "aten::broadcast_to": [(X, [3, 2, 6])],
    "aten::tile": [(X, [2]), (X, [2, 1, 2])],
    "aten::pad": [
        (X, [1, 2], "constant", None),
        (X, [1, 2, -1, 0], "constant", 2.5),
        (torch.arange(4), [1, 2], "constant", None),
        *((X[None], [2, 1], mode, None) for mode in ("reflect", "replicate", "circular")),
        *((X[None], [2, 1, 1, 1], mode, None) for mode in ("reflect", "replicate", "circular")),
        (torch.rand(1, 1, 3, 3, 3), [2, 2, 1, 2, 0, 1], "reflect", None),
    ],
    "aten::linalg_vector_norm": [
        (X, 2, None, False, None),
        (X, 2, None, True, None),
        (X, 1.5, [1], False, None),
        (X, float("inf"), [0, 1], True, 7),
    ],
    "aten::rms_norm": [
        (X, [6], None, None),
        (X, [2, 6], None, 1e-3),
        (X.double(), [6], torch.arange(6.0).double(), None),
        (X.half(), [6], None, None),
        (X.bfloat16(), [6], None, None),
    ],
    "aten::scaled_dot_product_attention": [
        (X[None], X[None], X[None], None, 0.0, False, None, False),
        (X[None], X[None], X[None], None, 0.0, True, None, False),
        (X[None], X[None], X[None], MASK, 0.0, False, 0.5, False),
        (X[None], X[None], X[None], MASK.float(), 0.0, False, None, False),
        (*(torch.rand(2, heads, 3, 4) for heads in (4, 2, 2)), None, 0.0, True, None, True),
    ],
    "aten::stft": [
        (X, 4, None, 3, torch.ones(3), True, False, True, None),
        (torch.complex(X, X), 4, 2, None, None, False, None, None, None),
    ],
    "aten::stft.center": [(X, 4, 2, None, None, True, "constant", False, None, True, None)],
}


@pytest.mark.whole
@pytest.mark.parametrize("operator", OLDER)
def test_older_forms_compute_what_the_operator_does(operator, tmp_path):
    """Here with the operators of the installed torch, which mean the same."""
    (schema,) = (s for s in overloads_of(operator.partition(".")[0]) if s.full_name == operator)
    if schema not in overloads_of(schema.name, INSTALLED):
        pytest.skip("the installed torch does not have it")
    (function,) = older_functions()[operator]
    parameters = [f"{a.name}: {annotation(a.type)}" for a in schema.arguments]
    given = "".join(f"{argument.name}, " for argument in schema.arguments)
    body = f"return {function.name}({given})"
    source = scripted(tmp_path, body, arguments=", ".join(parameters), older=True)
    modules = [tsarchive.load(source), torch.jit.load(source)]
    overload = schema.overload or "default"
    run = getattr(getattr(torch.ops.aten, schema.name.removeprefix("aten::")), overload)
    names = [a.name for a in schema.arguments if a.kwarg_only]
    for arguments in OLDER[operator]:
        given = dict(zip([a.name for a in schema.arguments], arguments, strict=True))
        keywords = {name: given[name] for name in names}
        positional = [value for name, value in given.items() if name not in names]
        wanted = run(*_copies(positional), **keywords)
        for module in modules:
            found = module(*_copies(arguments))
            torch.testing.assert_close(found, wanted)


def _copies(values):
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def test_every_older_form_is_compared():
    only_raise = {name for name, forms in older_functions().items() if forms[0].only_in_branch}
    alike = {"aten::floordiv.builtin_Tensor", "aten::floordiv.builtin_Scalar"}
    has_own_test = {"aten::solve"}
    assert older_functions().keys() == OLDER.keys() | only_raise | alike | has_own_test


def test_stft_is_aligned_to_its_window_by_later_releases_alone(tmp_path):
    """Only the run tells whether a script gives the argument of torch 2.7."""
    call = "torch.stft(x, 4, None, None, None, False, None, True, aligned)"
    given = "x: Tensor, aligned: Optional[bool]"
    source = scripted(tmp_path, f"return {call}", arguments=given)
    records, done, out = converted(source, tmp_path, "2.6")
    check_operators(records, "2.6")
    assert [calls.operator for calls in done.rewritten] == ["aten::stft"]
    for module in (tsarchive.load(out), torch.jit.load(out)):
        assert equal(module(X, None), torch.ops.aten.stft(X, 4, return_complex=True))
        with pytest.raises(Exception, match="align_to_window"):
            module(X, True)


def test_what_only_raises_stands_in_branches_alone(tmp_path):
    """As in torch.nn.functional.interpolate, which names all its ways of resizing."""
    call = "torch._upsample_nearest_exact2d(x, None, [2., 2.])"
    body = f"if torch.gt(torch.dim(x), 4):\n  y = {call}\nelse:\n  y = x\nreturn y"
    records, done, _ = converted(scripted(tmp_path, body), tmp_path, "1.10")
    check_operators(records, "1.10")
    assert done.rewritten[0].written_as == ("prim::RaiseException",)
    with pytest.raises(TargetError, match="no operator aten::_upsample_nearest_exact2d"):
        converted(scripted(tmp_path, f"return {call}"), tmp_path, "1.10")


def test_the_tables_name_operators_that_there_are():
    """Functions stand for overloads of some release, and older names for names."""
    for full_name in older_functions():
        name = full_name.partition(".")[0]
        assert full_name in {schema.full_name for schema in overloads_of(name)}, full_name
    for name, older in older_names().items():
        assert versions_of(name), name
        assert all(map(versions_of, older)), older


NAMED = {
    "aten::align_to": 'torch.align_to(x, ["N"])',
    "aten::sum.dim_DimnameList": 'torch.sum(x, ["N"])',
}


@pytest.mark.parametrize("operator", NAMED)
def test_what_is_refused_here_is_kept_where_it_runs(operator, tmp_path):
    assert release_named("2.12") < newest_release()
    body = f"if torch.gt(torch.dim(x), 9):\n  y = {NAMED[operator]}\nelse:\n  y = x\nreturn y"
    source = scripted(tmp_path, body)
    records, done, _ = converted(source, tmp_path, "2.12")
    assert not done.rewritten
    assert records[CODE] == records_of(source.read_bytes())[CODE]
    check_operators(records, "2.12")
    for release in (None, "2.15"):
        with pytest.raises(TargetError, match="nothing stands for it"):
            converted(source, tmp_path, release)


def test_what_torch_removed_for_good_is_refused_by_default(tmp_path):
    """No import lets it run, unlike operators of libraries."""
    with pytest.raises(TargetError, match="Caffe2") as raised:
        converted(scripted(tmp_path, "return ops._caffe2.Gelu(x, False)"), tmp_path)
    assert [obstacle.line for obstacle in raised.value.obstacles] == [6]
