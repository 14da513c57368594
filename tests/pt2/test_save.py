"""Programs of torch.export saved as PT2 archives, beside what torch.export.save writes."""

from __future__ import annotations

import functools
import io
import json
import os

import pytest
import torch

import tsarchive
from tests.support import pt2_archives
from tests.support.archives import export_saved, records_of, saved
from tests.support.features import stores_weights_apart
from tests.support.processes import output_of
from tests.support.pt2_archives import MODEL, PROGRAMS, nested, shared
from tsarchive.formats.pt2.exporter import unknown_fields
from tsarchive.formats.pt2.schema import ExportedProgram, read_json, write_json

FINGERPRINT = ".data/serialization_id"


@functools.cache
def program_of(name):
    return PROGRAMS[name]()


def without_metadata(text: bytes) -> dict:
    """A program without what its nodes tell of their origin."""

    def cleaned(value):
        if isinstance(value, list):
            return list(map(cleaned, value))
        if isinstance(value, dict):
            return {key: cleaned(item) for key, item in value.items() if key != "metadata"}
        return value

    return cleaned(json.loads(text))


@stores_weights_apart
@pytest.mark.parametrize("name", PROGRAMS)
def test_records_are_those_of_torch_but_for_metadata(name):
    program = program_of(name)
    theirs = records_of(export_saved(program, extra_files={"a/b.txt": "text"}))
    ours = records_of(saved(program, extra_files={"a/b.txt": "text"}))
    assert list(ours) == list(theirs)
    different = {record for record in ours if ours[record] != theirs[record]}
    assert different <= {MODEL, FINGERPRINT}
    assert without_metadata(ours[MODEL]) == without_metadata(theirs[MODEL])


@stores_weights_apart
@pytest.mark.parametrize("name", PROGRAMS)
def test_torch_loads_what_was_saved(name):
    program = program_of(name)
    again = torch.export.load(io.BytesIO(saved(program)))
    args, kwargs = program.example_inputs
    expected = program.module()(*args, **kwargs)
    torch.testing.assert_close(again.module()(*args, **kwargs), expected, rtol=0, atol=0)
    assert list(again.state_dict) == list(program.state_dict)
    for key, tensor in program.state_dict.items():
        assert torch.equal(again.state_dict[key], tensor)


@stores_weights_apart
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_schema_reads_and_writes_what_torch_writes(name):
    text = records_of(export_saved(program_of(name)))[MODEL]
    assert write_json(read_json(ExportedProgram, text, MODEL), unknown_fields()) == text


@stores_weights_apart
def test_programs_by_name_share_one_file():
    both = {"first": nested(), "second": shared()}
    names = list(records_of(saved(both)))
    buffer = io.BytesIO()
    torch.export.pt2_archive._package.package_pt2(buffer, exported_programs=both)
    assert names == list(records_of(buffer.getvalue()))


CHILD = """
import sys, torch
from tests.support.archives import saved
from tests.support.pt2_archives import PROGRAMS
torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # counters of the process move
sys.stdout.buffer.write(saved(PROGRAMS[{name!r}]()))
"""


@pytest.mark.long("test_records_are_those_of_torch_but_for_metadata")
@pytest.mark.parametrize("name", ["shared", "shared, decomposed"])
def test_bytes_are_those_of_every_process(name):
    command = ("-W", "ignore", "-c", CHILD.format(name=name))
    found = {output_of(*command, env={"PYTHONHASHSEED": seed}) for seed in ("1", "2")}
    assert len(found) == 1


def test_paths_of_source_files_are_told_on_request_alone():
    program = shared().run_decompositions()
    here = json.dumps(pt2_archives.__file__)[1:-1].encode()
    assert here not in records_of(saved(program))[MODEL]
    assert os.path.basename(pt2_archives.__file__).encode() in records_of(saved(program))[MODEL]
    assert here in records_of(saved(program, source_paths=True))[MODEL]
    assert b"stack_trace" not in records_of(saved(program, debug=False))[MODEL]


def test_a_name_that_is_no_part_of_a_record_is_refused():
    with pytest.raises(tsarchive.SaveError):
        saved({"a/b": nested()})


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.pt2"
    tsarchive.save(nested(), path)
    before = path.read_bytes()
    with pytest.raises(tsarchive.SaveError):
        tsarchive.save({"a": nested(), "": nested()}, path)
    assert path.read_bytes() == before
