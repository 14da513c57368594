"""A slice of the fuzzing run, watched in processes; CI runs fifty thousand inputs by itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.archives import ROOT

RUN = ROOT / "fuzz" / "run.py"
INPUTS = 400

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks are Linux's")


def driver(*options, folder=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RUN, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.long("test_an_input_is_made_again_by_its_number")
def test_no_input_violates_the_property(tmp_path):
    """And a run that is started again goes on where the first one stopped: here, at its end."""
    options = ("--inputs", INPUTS, "--seed", 1, "--quiet", "--json", "counts.json", "--out", ".")
    ran = driver(*options, folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads((tmp_path / "counts.json").read_text())
    assert told["violations"] == {}
    assert INPUTS - 5 <= told["inputs"] <= INPUTS
    assert set(told["counts"]) == {
        "container", "pickle", "code", "running", "pt2", "executorch", "text", "attack",
    }  # fmt: skip
    state = json.loads((tmp_path / "state.json").read_text())
    state["counts"] = {"pickle": {"read_pickle: sound": 7}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert "7 inputs, 0 violations" in driver(*options, folder=tmp_path).stdout


def test_an_input_is_made_again_by_its_number(tmp_path):
    path = tmp_path / "input.bin"
    made = driver("--reproduce", "pickle:5", "--seed", 1, "--out", path)
    assert made.returncode == 0, made.stdout + made.stderr
    sys.path.insert(0, str(RUN.parent))
    try:
        from layers import made as made_input
    finally:
        sys.path.remove(str(RUN.parent))
    assert path.read_bytes() == made_input("pickle", 1, 5).data


VIOLATIONS = {
    "a file is written": ("open('x', 'w')", "opened 'x' with mode 'w'"),
    "a file is read": ("open('/etc/passwd')", "opened '/etc/passwd'"),
    "a module is imported": ("__import__('this')", "imported this"),
    "a command runs": ("__import__('os').system('true')", "os.system"),
    "a process starts": ("__import__('os').fork()", "os.fork"),
    "a socket is made": ("__import__('socket').socket()", "socket.__new__"),
    "text is compiled": ("compile('1', 'x', 'eval')", "compile in"),
    "code is run": ("exec((lambda: 0).__code__)", "exec in"),
    "a warning is given": ("__import__('warnings').warn('w')", "a warning: UserWarning"),
    "another error": ("1 / 0", "ZeroDivisionError"),
    "too deep": ("(lambda f: f(f))(lambda f: f(f))", "RecursionError"),
    "too long": ("[0 for i in iter(int, 1)]", "seconds of CPU"),
    "too much memory": ("bytearray(1 << 31)", "MemoryError"),
    "hidden by a handler": ("hide()", "opened 'x'"),
    "asleep": ("__import__('time').sleep(1000)", "SIGKILL"),
    "a crash": ("__import__('os').abort()", "SIGABRT"),
    "an end": ("__import__('os')._exit(3)", "status 3"),
}
CHILD = """
import sys
sys.path.insert(0, {folder!r})
import child, layers, run, watch, workers

def hide():
    try:
        open("x", "w")
    except BaseException:
        pass

def violate(code):
    eval(code, globals())

watch._PERMITTED["exec"] += ({program!r},)
codes = [compile(text, "<given>", "eval") for text in {violations!r}]

def made(layer, seed, number):
    if number % 2:
        return layers.Input(b"good", lambda: None, ())
    return layers.Input(b"bad", violate, (codes[number // 2],))

child.made = made
workers._STUCK_SECONDS = 20.0
run.warm_up = lambda: None
sys.argv = [
    "run.py", "--layers", "pickle", "--inputs", str(2 * len(codes)), "--seconds", "2", "--quiet",
    "--out", {out!r},
]
sys.exit(run.main())
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A run in which every other input does what no input may do."""
    out = tmp_path_factory.mktemp("watched")
    texts = [text for text, _ in VIOLATIONS.values()]
    program = str(out / "program.py")
    code = CHILD.format(folder=str(RUN.parent), violations=texts, program=program, out=str(out))
    (out / "program.py").write_text(code)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    return out, ran


@pytest.mark.long("test_an_input_is_made_again_by_its_number")
@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_seen(watched, name):
    """What the watch must see, it sees, also when the library would hide it."""
    out, ran = watched
    number = 2 * list(VIOLATIONS).index(name)
    assert VIOLATIONS[name][1] in (out / f"pickle-{number}.txt").read_text(), ran.stdout


@pytest.mark.long("test_an_input_is_made_again_by_its_number")
def test_a_run_goes_on_behind_violations(watched):
    _, ran = watched
    assert ran.returncode == 1
    assert f"{2 * len(VIOLATIONS)} inputs, {len(VIOLATIONS)} violations" in ran.stdout
