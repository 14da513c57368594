"""Looking at a file imports no torch, no NumPy and no Rich; entry points, help and colours."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points

import click
import pytest

import tsarchive
from tests.support.command_line import SEQUENTIAL, process, run
from tsarchive.cli import COMMANDS as LISTED
from tsarchive.cli import main

COMMANDS = ("demo", "info", "tree", "code", "edit", "tensors", "run", "jitter")
_PROBE = """
import json, sys
from tsarchive.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main(args)
    except SystemExit as ended:
        status = ended.code
    heavy = {"torch", "numpy", "rich"} & set(sys.modules)
    print(json.dumps([args, status, sorted(heavy)]), file=sys.stderr)
"""


def test_nothing_heavy_is_imported(tmp_path):
    """By a process that runs one command after the other."""
    file = str(SEQUENTIAL)
    looking = [[name, file] for name in ("info", "tree", "code", "tensors", "verify", "audit")]
    calls = [*looking, ["info", file, "--json"], ["run", "--help"], ["--help"]]
    done = process("-c", _PROBE, json.dumps(calls), cwd=tmp_path)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert found == [[args, 0, []] for args in calls]


def test_info_as_text_imports_what_it_shows(tmp_path):
    code = (
        "import sys; from tsarchive.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*{'tsarchive.ir.values', 'json'} & set(sys.modules), file=sys.stderr)"
    )
    done = process("-c", code, "info", SEQUENTIAL, cwd=tmp_path)
    assert (done.returncode, done.stderr.split()) == (0, [])


def test_lists_say_of_commands_what_they_say_of_themselves():
    context = click.Context(main)
    for name, sentence in LISTED.items():
        command, listed = main.get_command(context, name), click.Command(name, help=sentence)
        for limit in (20, 45, 60, 200):
            assert command.get_short_help_str(limit) == listed.get_short_help_str(limit)
        assert not command.hidden


def complete(words, cwd, shell="bash"):
    asked = {
        "_TSARCHIVE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = process("-m", "tsarchive", cwd=cwd, env=asked)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_shells_complete_commands_and_options(tmp_path):
    assert complete("tsarchive de", tmp_path) == ["plain,demo", "plain,decompile"]
    assert complete("tsarchive --t", tmp_path) == ["plain,--traceback"]
    assert complete("tsarchive info --j", tmp_path) == ["plain,--json", "plain,--jsonl"]
    kind, name, sentence = complete("tsarchive inf", tmp_path, "zsh")
    assert (kind, name, sentence) == ("plain", "info", LISTED["info"])


@pytest.mark.parametrize(
    ("args", "env"),
    [(["--help"], {}), ([], {"_TSARCHIVE_COMPLETE": "bash_complete", "COMP_WORDS": "tsarchive "})],
    ids=["help", "completion"],
)
def test_lists_import_no_command(args, env, tmp_path):
    code = (
        "import sys; from tsarchive.cli import main\n"
        "try: main(sys.argv[1:], prog_name='tsarchive')\n"
        "finally: print(*(m for m in sys.modules if m.startswith('tsarchive')), file=sys.stderr)"
    )
    env = {"COMP_CWORD": "1", **env}
    done = process("-c", code, *args, cwd=tmp_path, env=env)
    assert done.returncode == 0
    assert all(name in done.stdout for name in LISTED)
    assert set(done.stderr.split()) == {
        "tsarchive", "tsarchive.cli", "tsarchive.cli.help", "tsarchive.cli.lines",
        "tsarchive.cli.output",
        "tsarchive.describing",
        "tsarchive.describing.text", "tsarchive.errors", "tsarchive.garbage",
        "tsarchive.lazy_members",
    }  # fmt: skip


def test_python_m_is_the_command(tmp_path):
    done = process("-m", "tsarchive", "--version", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == f"tsarchive, version {tsarchive.__version__}"
    assert process("-m", "tsarchive", "--help", cwd=tmp_path).stdout.startswith("Usage: tsarchive ")


def test_the_entry_point_exists():
    (found,) = entry_points(group="console_scripts", name="tsarchive")
    assert found.load() is main


def test_help_lists_every_command():
    listed = run("--help").stdout
    assert [name for name in COMMANDS if re.search(rf"^  {name}  ", listed, re.M)] == [*COMMANDS]
    assert "..." not in listed.partition("Commands:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_json(command):
    shown = run(command, "--help").stdout
    assert "Examples:" in shown
    assert f"tsarchive {command}" in shown
    assert "--json" in shown


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
    ids=["pipe", "forced", "forbidden"],
)
@pytest.mark.parametrize("command", ["info", "tree", "code"])
def test_colours(command, env, coloured, tmp_path, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = process("-m", "tsarchive", command, SEQUENTIAL, cwd=tmp_path, env=env).stdout
    assert bool(re.search(r"\x1b\[[\d;]*\b(3|9)\d", shown)) is coloured or command == "info"
    assert ("\x1b[" in shown) is bool(env)
