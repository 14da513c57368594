"""``tsarchive demo``."""

from __future__ import annotations

import json

import pytest
import torch

from tests.support.archives import ROOT
from tests.support.command_line import SEQUENTIAL, document, error, process, run
from tests.support.processes import torch_process
from tsarchive.cli.command import failure
from tsarchive.demo import trial as trials
from tsarchive.demo.measuring import TORCH_JIT, TSARCHIVE, Reply, Request, ask

KEYS = {"torch", "threads", "models", "ok"}
MODEL_KEYS = {"name", "tsarchive", "torch_jit", "torch_jit_reads_ours", "ok"}
SIDE_KEYS = {
    "nbytes", "records", "load_seconds", "first_call_seconds", "second_call_seconds",
    "outputs_equal", "max_difference", "stable", "first_difference", "error",
}  # fmt: skip
TIMES = ("load_seconds", "first_call_seconds", "second_call_seconds")


def request(folder, file=SEQUENTIAL, shape=(2, 3)) -> Request:
    torch.save({"args": [torch.ones(shape)], "kwargs": {}}, folder / "inputs.pt")
    return Request(
        file=str(file),
        inputs=str(folder / "inputs.pt"),
        outputs=str(folder / "outputs.pt"),
        first_save=str(folder / "first.pt"),
        second_save=str(folder / "second.pt"),
        imports=(),
    )


@pytest.mark.long("test_a_process_answers_with_what_went_wrong")
def test_the_two_models(tmp_path):
    done = process("-m", "tsarchive", "demo", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found.keys() == KEYS | {"schema", "version"}
    assert found["ok"] is True
    assert [model["name"] for model in found["models"]] == ["resnet18", "decoder"]
    for model in found["models"]:
        assert model.keys() == MODEL_KEYS
        assert model["torch_jit_reads_ours"] is True
        for side in (model["tsarchive"], model["torch_jit"]):
            assert side.keys() == SIDE_KEYS
            assert (side["outputs_equal"], side["max_difference"]) == (True, 0.0)
            assert all(side[time] > 0 for time in TIMES)
        assert model["tsarchive"]["stable"] is True


@pytest.mark.long("test_a_process_answers_with_what_went_wrong")
def test_a_file(tmp_path):
    done = process("-m", "tsarchive", "demo", SEQUENTIAL, "--random", "2x3", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["stable", "bytes", "yes", "yes"] in rows
    assert "outputs are equal to the bit, saved bytes are stable" in done.stdout


def test_the_process_of_tsarchive_has_no_torch_jit(tmp_path):
    (tmp_path / "probe.py").write_text(
        "import runpy, sys\n"
        "sys.stdin = open('request.json')\n"
        f"runpy.run_module('{TSARCHIVE}', run_name='__main__')\n"
        "import torch\n"
        "try:\n"
        "    torch.jit.load('x')\n"
        "except RuntimeError as error:\n"
        "    print(error, file=sys.stderr)\n"
    )
    (tmp_path / "request.json").write_text(json.dumps(request(tmp_path)))
    done = torch_process(tmp_path / "probe.py", cwd=tmp_path)
    assert "reply" in json.loads(done.stdout)
    assert "torch.jit is disabled" in done.stderr


@pytest.mark.sample(1, gaps="each item is a process that imports torch")
@pytest.mark.parametrize("side", [TSARCHIVE, TORCH_JIT])
def test_a_process_answers_with_what_went_wrong(side, tmp_path):
    answer = ask(side, request(tmp_path, shape=(2, 4)), str(tmp_path))
    assert answer["error"]["message"]


def test_a_process_that_dies(tmp_path):
    answer = ask("tsarchive.cli.no_such_module", request(tmp_path), str(tmp_path))
    assert "No module named" in answer["error"]["message"]


@pytest.mark.long("test_a_process_answers_with_what_went_wrong")
def test_what_a_model_prints_does_not_disturb_the_answer(tmp_path):
    class Talks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("hello")
            return x

    torch.jit.save(torch.jit.script(Talks()), str(tmp_path / "talks.pt"))
    for side in (TSARCHIVE, TORCH_JIT):
        answer = ask(side, request(tmp_path, tmp_path / "talks.pt"), str(tmp_path))
        assert answer.keys() == {"reply"}


def fake_sides(monkeypatch, *, ours=1.0, theirs=1.0, crossed=1.0, saves=(b"a", b"a"), fail=()):
    """Sides that answer at once, with these outputs and saves of tsarchive."""
    with open(SEQUENTIAL, "rb") as file:
        archive = file.read()

    def answer(module, request, folder):
        kind = "ours" if module == TSARCHIVE else "theirs" if request["first_save"] else "crossed"
        if kind in fail:
            return {"error": failure("RuntimeError", f"{kind} failed")}
        values = {"ours": ours, "theirs": theirs, "crossed": crossed}
        torch.save(values[kind], request["outputs"])
        for key, mark in zip(("first_save", "second_save"), saves, strict=True):
            if request[key] is not None:
                changed = archive.replace(b"layers", b"layer" + mark) if kind == "ours" else archive
                with open(request[key], "wb") as file:
                    file.write(changed)
        return {"reply": Reply(load_seconds=0.1, first_call_seconds=0.2, second_call_seconds=0.3)}

    monkeypatch.setattr(trials, "ask", answer)


def only_model(code):
    found = document("demo", SEQUENTIAL, code=code)
    (model,) = found["models"]
    assert found["ok"] is model["ok"] is (code == 0)
    return model


def test_nothing_differs(monkeypatch):
    fake_sides(monkeypatch)
    model = only_model(0)
    assert model["tsarchive"]["outputs_equal"] is True
    assert model["torch_jit"]["outputs_equal"] is None
    assert model["tsarchive"]["load_seconds"] == 0.1


def test_an_output_that_differs_is_a_finding(monkeypatch):
    fake_sides(monkeypatch, ours=1.5)
    model = only_model(1)
    assert model["tsarchive"]["max_difference"] == 0.5
    assert "no: up to 0.5 apart" in run("demo", SEQUENTIAL).stdout
    assert "OUTPUTS DIFFER" in run("demo", SEQUENTIAL).stdout


def test_outputs_of_other_types_are_a_finding(monkeypatch):
    fake_sides(monkeypatch, ours="text")
    assert only_model(1)["tsarchive"]["max_difference"] is None
    assert "no: other shapes" in run("demo", SEQUENTIAL).stdout


def test_a_save_that_torch_runs_differently_is_a_finding(monkeypatch):
    fake_sides(monkeypatch, crossed=2.0)
    assert only_model(1)["torch_jit_reads_ours"] is False
    assert "with NO equal outputs" in run("demo", SEQUENTIAL).stdout


def test_a_save_that_torch_does_not_load_is_a_finding(monkeypatch):
    fake_sides(monkeypatch, fail=("crossed",))
    assert only_model(1)["torch_jit_reads_ours"] is False


def test_bytes_that_change_are_a_finding(monkeypatch):
    fake_sides(monkeypatch, saves=(b"z", b"s"))
    monkeypatch.setattr(trials, "differences", lambda first, second: iter(()))
    model = only_model(1)
    assert model["tsarchive"]["stable"] is False
    assert "SAVED BYTES CHANGE" in run("demo", SEQUENTIAL).stdout


def test_a_file_that_torch_jit_cannot_load_is_no_finding(monkeypatch):
    fake_sides(monkeypatch, fail=("theirs", "crossed"))
    model = only_model(0)
    assert model["torch_jit"]["error"]["message"] == "theirs failed"
    assert model["tsarchive"]["outputs_equal"] is model["torch_jit_reads_ours"] is None
    assert "torch.jit failed: theirs failed" in run("demo", SEQUENTIAL).stdout


def test_a_failure_of_tsarchive_is_an_error(monkeypatch):
    fake_sides(monkeypatch, fail=("ours",))
    assert error("demo", SEQUENTIAL)["message"] == "ours failed"


def test_a_file_that_the_audit_warns_of_is_not_given_to_torch(tmp_path, monkeypatch):
    """torch.jit has no policy."""
    monkeypatch.chdir(tmp_path)
    hostile = ROOT / "fixtures" / "hostile" / "code-save-in-forward.pt"
    facts = error("demo", str(hostile))
    assert "aten::save" in facts["message"]
    assert "--trust" in facts["message"]
