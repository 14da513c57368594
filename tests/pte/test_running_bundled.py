"""Programs that bring calls with them, and ``tsarchive run`` of programs."""

from __future__ import annotations

import json
import struct
from collections import deque

import pytest
import torch
from click.testing import CliRunner

import tsarchive
from fixtures.executorch_samples import (
    FLOAT,
    LINEAR,
    LINEAR_DATA,
    SUITES,
    bundle,
    data_file,
    program,
)
from tests.support.executorch_files import FIXTURES
from tsarchive.cli import main
from tsarchive.executorch import Draft
from tsarchive.formats.executorch.modules.comparing import check_cases

GOOD = FIXTURES / "linear.bpte"


def run(*arguments):
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def value(sizes, numbers):
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    made = {"scalar_type": FLOAT, "sizes": sizes, "data": data}
    return {"val": ("Tensor", {**made, "dim_order": list(range(len(sizes)))})}


def bundled(tmp_path, outputs, method="forward"):
    """The fixture with other results."""
    case = {"inputs": [value([2, 4], [0.0] * 8)], "expected_outputs": outputs}
    suites = {"method_test_suites": [{"method_name": method, "test_cases": [case]}]}
    path = tmp_path / "program.bpte"
    path.write_bytes(bundle(suites, program(LINEAR, LINEAR_DATA)))
    return path


def test_a_bundle_runs_as_its_program_does():
    x = torch.randn(2, 4)
    assert torch.equal(tsarchive.load(GOOD)(x), tsarchive.load(FIXTURES / "linear.pte")(x))


def test_calls_that_give_what_is_expected():
    (result,) = check_cases(tsarchive.load(GOOD))
    assert (result.method, result.number, result.max_difference) == ("forward", 0, 0.0)
    assert result.ok


def test_results_in_a_deque_are_compared(tmp_path):
    leaf = {"type": None, "context": None, "children_spec": []}
    tree = {"type": "collections.deque", "context": "null", "children_spec": [leaf]}
    (plan,) = LINEAR["execution_plan"]
    nested = {**plan["container_meta_type"], "encoded_out_str": json.dumps([1, tree])}
    made = {**LINEAR, "execution_plan": [{**plan, "container_meta_type": nested}]}
    path = tmp_path / "program.bpte"
    path.write_bytes(bundle(SUITES, program(made, LINEAR_DATA)))
    module = tsarchive.load(path)
    assert isinstance(module(torch.zeros(2, 4)), deque)
    (result,) = check_cases(module)
    assert result.ok


EXPECTED = [1, 2, 3] * 2


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        ([value([2, 3], [1, 2, 4, 1, 2, 3])], "output 0 is up to 1 apart"),
        ([value([6], EXPECTED)], "output 0 is float32[2, 3], not float32[6]"),
        ([], "1 outputs, and 0 are expected"),
        ([value([2, 3], EXPECTED), value([], [0])], "1 outputs, and 2 are expected"),
        ([{"val": ("Int", {"int_val": 3})}], "not 3"),
    ],
)
def test_calls_that_give_something_else(tmp_path, outputs, problem):
    (result,) = check_cases(tsarchive.load(bundled(tmp_path, outputs)))
    assert not result.ok
    assert problem in result.problem


def test_tolerances(tmp_path):
    path = bundled(tmp_path, [value([2, 3], [1.001, 2, 3, 1, 2, 3])])
    module = tsarchive.load(path)
    assert [result.ok for result in check_cases(module)] == [False]
    assert [result.ok for result in check_cases(module, rtol=1e-2)] == [True]
    assert [result.ok for result in check_cases(module, atol=1e-2)] == [True]


def test_a_method_that_is_not_there(tmp_path):
    path = bundled(tmp_path, [value([2, 3], EXPECTED)], method="other")
    (result,) = check_cases(tsarchive.load(path))
    assert "the call fails" in result.problem


def test_tensors_of_a_case_that_break_a_rule(tmp_path):
    path = bundled(tmp_path, [value([2, 3], [1.0])])
    with pytest.raises(tsarchive.FormatError, match="it has 4 bytes, not 24"):
        list(check_cases(tsarchive.load(path)))


def test_programs_without_calls():
    with pytest.raises(tsarchive.CallError, match="not loaded from a bundled program"):
        list(check_cases(tsarchive.load(FIXTURES / "linear.pte")))


# The command


def test_bundled_on_the_command_line():
    found = run(GOOD, "--bundled")
    assert (found.exit_code, found.output.splitlines()) == (
        0,
        ["forward case 0: as expected, up to 0 apart", "1 of 1 as expected"],
    )


def test_bundled_as_json(tmp_path):
    path = bundled(tmp_path, [value([2, 3], [0.0] * 6)])
    found = run(path, "--bundled", "--json")
    (case,) = json.loads(found.output)["cases"]
    assert (found.exit_code, case["ok"], case["max_difference"]) == (1, False, 3.0)
    assert run(path, "--bundled", "--atol", "3").exit_code == 0


def test_a_bundle_without_calls_is_not_fine(tmp_path):
    path = tmp_path / "x.bpte"
    with tsarchive.open(GOOD) as archive:
        draft = Draft(archive)
        draft.strip()
        draft.write(path)
    found = run(path, "--bundled")
    assert (found.exit_code, "brings no calls" in found.output) == (2, True)


def test_bundled_takes_no_inputs_and_wants_a_bundle():
    assert "takes no inputs" in run(GOOD, "--bundled", "--random", "2x4").output
    assert run(FIXTURES / "linear.pte", "--bundled").exit_code == 2


def test_a_program_on_the_command_line(tmp_path):
    out = tmp_path / "out.pt"
    found = run(FIXTURES / "linear.pte", "--random", "2x4", "--out", out)
    assert found.exit_code == 0, found.output
    assert torch.load(out, weights_only=True).shape == (2, 3)


def test_data_on_the_command_line(tmp_path):
    from fixtures.executorch_programs import file_of
    from tests.support.executorch_files import external, external_data

    path, data = tmp_path / "model.pte", tmp_path / "model.ptd"
    path.write_bytes(file_of(external()))
    data.write_bytes(external_data())
    missing = run(path)
    assert missing.exit_code == 2
    assert "--data model.ptd" in missing.output
    other = tmp_path / "other.ptd"
    other.write_bytes(data_file({"segments": [], "named_data": []}, b""))
    assert run(path, "--data", other, "--data", data).exit_code == 0


def test_suites_of_the_fixture_are_those_of_the_samples():
    assert GOOD.read_bytes() == bundle(SUITES, program(LINEAR, LINEAR_DATA))
