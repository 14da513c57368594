"""What public advisories and proofs of concept did, and what happens here instead.

One test for each, by its name. The files are made small by fixtures/make_hostile.py.
"""

from __future__ import annotations

import io
import os

import pytest
import torch

import tsarchive
from fixtures.hostile_samples.sample import archive, code_of
from tests.support.archives import ROOT
from tsarchive import Severity

HOSTILE = ROOT / "fixtures" / "hostile"


@pytest.fixture(autouse=True)
def _nothing_happens(tmp_path, monkeypatch):
    """No advisory's payload runs: no file is made, and no command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda command: pytest.fail(f"ran {command}"))
    yield
    assert os.listdir(tmp_path) == []


def sample(name: str) -> io.BytesIO:
    return io.BytesIO((HOSTILE / f"{name}.pt").read_bytes())


def loaded(name: str):
    return tsarchive.load(sample(name))


def errors(report) -> set[str]:
    return {finding.rule for finding in report.findings if finding.severity is Severity.ERROR}


def refused_at_call(name: str, kind: type[tsarchive.ArchiveError]) -> str:
    module = loaded(name)
    with pytest.raises(kind) as caught:
        module(torch.ones(8))
    return str(caught.value)


@pytest.mark.parametrize("name", ["code-annotation-call", "code-parameter-annotation-call"])
def test_cve_2022_45907_annotations_are_parsed_by_a_grammar(name):
    """torch.jit.annotations evaluated type comments as Python."""
    refused_at_call(name, tsarchive.SourceError)


def test_cve_2022_45907_type_comments_are_comments():
    assert loaded("code-type-comment")(torch.ones(8)).shape == (8,)


def test_cve_2022_45907_type_tags_of_pickles_are_parsed_by_a_grammar():
    with pytest.raises(tsarchive.PickleError):
        loaded("pickle-type-tag-call")


@pytest.mark.parametrize(
    ("name", "operator"),
    [("code-save-in-forward", "aten::save"), ("code-from-file-shared", "aten::from_file")],
)
def test_cve_2025_32434_code_cannot_write_files(name, operator):
    """torch.load(weights_only=True) ran TorchScript code that wrote files."""
    assert operator in refused_at_call(name, tsarchive.PolicyError)
    assert errors(tsarchive.audit(sample(name)))


def test_cve_2026_24747_items_are_set_on_dicts_alone():
    """SETITEM of torch's weights_only unpickler worked on any object."""
    for name in ("pickle-setitem-on-list", "pickle-setitem-on-object", "pickle-setitem-on-tensor"):
        with pytest.raises(tsarchive.PickleError, match="items for a dict"):
            loaded(name)


@pytest.mark.parametrize("name", ["pickle-numel-lie", "pickle-numel-lie-unused"])
def test_cve_2026_24747_storages_are_as_large_as_their_records(name):
    """A storage that claimed more than its record let tensors read memory beyond it."""
    with pytest.raises(tsarchive.PickleError, match="32 bytes"):
        loaded(name)
    assert errors(tsarchive.verify(sample(name)))


@pytest.mark.parametrize("name", ["zip-overlap", "zip-quoted-overlap"])
def test_cve_2024_0450_entries_do_not_overlap(name):
    """zipfile inflated one kernel of data for each of many entries."""
    with pytest.raises(tsarchive.FormatError):
        tsarchive.open(sample(name))
    assert errors(tsarchive.verify(sample(name)))


def test_cve_2025_10155_content_decides_what_a_file_is(tmp_path_factory):
    """picklescan chose its parser by the extension, so a pickle named .bin went unread."""
    content = sample("pickle-reduce-os-system").getvalue()
    for suffix in (".bin", ".pt", ".zip", ".txt"):
        path = tmp_path_factory.mktemp("named") / f"model{suffix}"
        path.write_bytes(content)
        assert errors(tsarchive.audit(path))
    with pytest.raises(tsarchive.FormatError, match="not a zip"):
        loaded("file-pickle")


def test_cve_2025_10156_a_wrong_crc_is_a_finding():
    """picklescan gave up at a wrong CRC and reported nothing; torch loaded the file."""
    with pytest.raises(tsarchive.FormatError, match="CRC"):
        loaded("zip-crc")
    assert errors(tsarchive.verify(sample("zip-crc")))


def test_cve_2025_10157_whole_dotted_names_count():
    """picklescan compared modules, so that a submodule of a dangerous one passed."""
    with pytest.raises(tsarchive.ArchiveError, match=r"os\.path"):
        loaded("pickle-submodule-import")
    assert errors(tsarchive.audit(sample("pickle-submodule-import")))


@pytest.mark.parametrize(
    ("advisory", "name"),
    [("CVE-2024-5480", "code-rpc-sync"), ("CVE-2024-48063", "code-rpc-async")],
)
def test_remote_calls_are_no_code_of_ours(advisory, name):
    """torch's RPC runs what another process names."""
    refused_at_call(name, tsarchive.SourceError)
    assert errors(tsarchive.audit(sample(name))), advisory


def test_stanza_1_12_nothing_falls_back_to_unpickling():
    """Stanza tried again with weights_only=False when the safe way failed."""
    with pytest.raises(tsarchive.MissingRecordError, match="not a TorchScript archive"):
        loaded("file-state-dict-os-system")
    with pytest.raises(tsarchive.UnknownClassError, match=r"os\.system"):
        loaded("pickle-reduce-os-system")


def test_huntr_torchscript_fileio_code_at_load_obeys_the_policy():
    """__setstate__ wrote files while the archive was loaded; scanners of pickles saw nothing."""
    with pytest.raises(tsarchive.PolicyError, match="aten::save"):
        loaded("code-save-at-load")
    assert errors(tsarchive.audit(sample("code-save-at-load")))


def test_huntr_pre_hook_hooks_obey_the_policy():
    """forward was harmless, a hook that runs before it was not."""
    assert "aten::save" in refused_at_call("code-save-in-pre-hook", tsarchive.PolicyError)
    assert errors(tsarchive.audit(sample("code-save-in-pre-hook")))


def test_huntr_torch_export_pt2_flags_in_json_unpickle_nothing():
    """use_pickle in the JSON of a program made torch.export.load unpickle its constants."""
    with pytest.raises(tsarchive.UnsupportedError, match="only a pickle describes"):
        loaded("pt2-weight-pickled")
    with pytest.raises(tsarchive.FormatError, match="graph is missing"):
        loaded("file-exported-use-pickle")
    assert tsarchive.verify(sample("file-exported-use-pickle")).findings
    assert errors(tsarchive.audit(sample("file-exported-use-pickle")))


def test_huntr_torch_package_packages_are_not_imported():
    with pytest.raises(tsarchive.MissingRecordError, match=r"torch\.package"):
        loaded("file-package")
    assert tsarchive.audit(sample("file-package")).findings


def test_arxiv_2508_19774_an_error_in_one_record_hides_no_other():
    """Payloads hid behind bytes at which scanners raised."""
    data = archive(code_of('torch.save(x, "written-by-a-hostile-archive")'), root=b"\x80\x02broken")
    found = {finding.record for finding in tsarchive.audit(io.BytesIO(data)).findings}
    assert {"data.pkl", "code/__torch__.py"} <= found


@pytest.mark.parametrize("name", ["pickle-stride-beyond", "pickle-size-beyond"])
def test_pytorch_185440_tensors_stay_inside_their_storages(name):
    """A tensor read beyond its storage."""
    with pytest.raises(tsarchive.PickleError, match="reaches element"):
        loaded(name)


@pytest.mark.parametrize(
    "name", ["pickle-string-length", "pickle-string-length-64", "pickle-numel-huge"]
)
def test_pytorch_185443_lengths_are_checked_before_memory_is_taken(name):
    """226 GB were allocated for 1.6 KB."""
    with pytest.raises(tsarchive.PickleError):
        loaded(name)


@pytest.mark.parametrize("name", ["pickle-memo-unset", "pickle-memo-huge"])
def test_pytorch_179581_memo_numbers_are_no_indices(name):
    """The memo was a vector, and numbers beyond its end were read."""
    with pytest.raises(tsarchive.PickleError):
        loaded(name)


@pytest.mark.parametrize(
    "name", ["pickle-from-type-system", "pickle-from-type-short", "pickle-from-type-no-globals"]
)
def test_pytorch_pr_169570_rebuild_from_type_has_its_arguments(name):
    """The names that should follow it were taken from beyond the end of a list."""
    with pytest.raises(tsarchive.PickleError):
        loaded(name)


@pytest.mark.parametrize(
    ("thread", "name"),
    [
        ("77561", "pickle-stack-underflow"),
        ("77563", "pickle-no-mark"),
        ("77573", "pickle-no-stop"),
        ("77575", "pickle-empty-pickle"),
    ],
)
def test_pytorch_crashes_on_damaged_pickles(thread, name):
    """Closed there: for trusted inputs only."""
    with pytest.raises(tsarchive.PickleError) as caught:
        loaded(name)
    assert caught.value.record == "data.pkl", thread


def test_format_strings_reach_no_attributes():
    """str.format in a sandbox walked from any object to all classes."""
    assert loaded("code-format-traversal")(torch.ones(8)).shape == (8,)
    code = code_of('y = torch.format("{0.__class__}|{}", 1)', "ops.prim.RaiseException(y)")
    with pytest.raises(tsarchive.ScriptError, match=r"\{0\.__class__\}\|1"):
        tsarchive.load(io.BytesIO(archive(code)))(torch.ones(8))


# The sources that the manifest names, and the tests above that stand for them.
COVERED = {
    "CVE-2022-45907": test_cve_2022_45907_annotations_are_parsed_by_a_grammar,
    "CVE-2024-0450": test_cve_2024_0450_entries_do_not_overlap,
    "CVE-2024-48063": test_remote_calls_are_no_code_of_ours,
    "CVE-2024-5480": test_remote_calls_are_no_code_of_ours,
    "CVE-2025-10155": test_cve_2025_10155_content_decides_what_a_file_is,
    "CVE-2025-10156": test_cve_2025_10156_a_wrong_crc_is_a_finding,
    "CVE-2025-10157": test_cve_2025_10157_whole_dotted_names_count,
    "CVE-2025-32434": test_cve_2025_32434_code_cannot_write_files,
    "CVE-2026-24747": test_cve_2026_24747_items_are_set_on_dicts_alone,
    "huntr EnigmaConsultant/huntr-poc-torch-export-pt2": (
        test_huntr_torch_export_pt2_flags_in_json_unpickle_nothing
    ),
    "huntr EnigmaConsultant/huntr-poc-torch-package-rce": (
        test_huntr_torch_package_packages_are_not_imported
    ),
    "huntr EnigmaConsultant/huntr-poc-torchscript-fileio": (
        test_huntr_torchscript_fileio_code_at_load_obeys_the_policy
    ),
    "huntr dxoth1nh/mfv-poc-torch-jit-forward-prehook-hidden-path": (
        test_huntr_pre_hook_hooks_obey_the_policy
    ),
    "pytorch #179581": test_pytorch_179581_memo_numbers_are_no_indices,
    "pytorch #185440": test_pytorch_185440_tensors_stay_inside_their_storages,
    "pytorch #185443": test_pytorch_185443_lengths_are_checked_before_memory_is_taken,
    "pytorch #77561": test_pytorch_crashes_on_damaged_pickles,
    "pytorch #77563": test_pytorch_crashes_on_damaged_pickles,
    "pytorch #77573": test_pytorch_crashes_on_damaged_pickles,
    "pytorch #77575": test_pytorch_crashes_on_damaged_pickles,
    "pytorch PR #169570": test_pytorch_pr_169570_rebuild_from_type_has_its_arguments,
    "stacker.news/items/1512059": test_format_strings_reach_no_attributes,
}


def test_every_source_of_a_sample_has_a_test():
    lines = (HOSTILE / "MANIFEST.tsv").read_text(encoding="utf-8").splitlines()
    column = lines[0].split("\t").index("source")
    assert {line.split("\t")[column] for line in lines[1:]} - {"-"} == set(COVERED)
