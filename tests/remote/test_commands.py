"""Commands on files elsewhere: they say what they say of the file here, and keep credentials."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.remote.test_verbs import made, with_inputs_ahead
from tests.support.archives import ARCHIVES, ROOT
from tests.support.command_line import run
from tests.support.web_server import web_server
from tsarchive.cli import main
from tsarchive.container import Container, NewRecord, write_container
from tsarchive.container.serialization_id import RECORD_NAME as SERIALIZATION_ID

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

SEQUENTIAL = ARCHIVES / "sequential.pt"
PROGRAM = ROOT / "fixtures" / "executorch" / "linear.pte"
EXPORTED = ROOT / "fixtures" / "pt2" / "linear.pt2"
READING = (
    ("info",), ("tree",), ("code",), ("tensors",), ("verify",), ("audit",), ("compat",),
    ("fingerprint",), ("fingerprint", "--no-weights"),
)  # fmt: skip
RUNNING = (("run", "--random", "2x3"), ("jitter",), ("info", "--check"))


@pytest.fixture
def memory():
    """The folder of fsspec's memory that a test has for itself, as a URL."""
    filesystem = fsspec.filesystem("memory")
    yield "memory://commands"
    filesystem.rm("/commands", recursive=True) if filesystem.exists("/commands") else None


def put(url: str, file: Path) -> str:
    filesystem, path = fsspec.url_to_fs(url)
    filesystem.pipe_file(path, file.read_bytes())
    return url


def outcome(*args: object) -> tuple[int, str]:
    found = run(*args)
    return found.exit_code, found.output


@pytest.mark.whole
@pytest.mark.parametrize("file", [SEQUENTIAL, EXPORTED, PROGRAM], ids=lambda file: file.suffix)
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_reading_commands(memory, file, command):
    url = put(f"{memory}/{file.name}", file)
    for option in ((), ("--json",)):
        code, text = outcome(*command, file, *option)
        found = outcome(*command, url, *option)
        assert (found[0], _without_costs(found[1])) == (code, text.replace(str(file), url))


_COSTS = re.compile(r"^fetched .*\n|,\n *\"traffic\": \{[^}]*\}", re.MULTILINE)


def _without_costs(text: str) -> str:
    """What ``info`` says of a file elsewhere alone is left out."""
    return _COSTS.sub("", text)


@pytest.mark.whole
@pytest.mark.parametrize("command", RUNNING, ids=" ".join)
def test_running_commands(memory, command):
    url = put(f"{memory}/sequential.pt", SEQUENTIAL)
    code, text = outcome(*command, SEQUENTIAL, "--json")
    found = outcome(*command, url, "--json")
    assert found[0] == code == 0
    assert _without_times(found[1]) == _without_times(text.replace(str(SEQUENTIAL), url))


def _without_times(text: str) -> dict:
    found = json.loads(_without_costs(text))
    return {key: value for key, value in found.items() if "seconds" not in key}


def test_diff(memory):
    other = ARCHIVES / "buffers.pt"
    urls = put(f"{memory}/sequential.pt", SEQUENTIAL), put(f"{memory}/buffers.pt", other)
    code, text = outcome("diff", SEQUENTIAL, other)
    told = text.replace(str(SEQUENTIAL), urls[0]).replace(str(other), urls[1])
    assert outcome("diff", *urls) == (code, told)


@pytest.mark.parametrize("option", [["--against"], []])
def test_report(memory, tmp_path, option):
    url = put(f"{memory}/sequential.pt", SEQUENTIAL)
    for given, page in ((SEQUENTIAL, tmp_path / "here.html"), (url, f"{memory}/there.html")):
        more = [*option, given] if option else []
        assert run("report", given, *more, "-o", page).exit_code == 0
    here, there = (tmp_path / "here.html").read_bytes(), fsspec.filesystem("memory")
    assert there.cat("/commands/there.html") == here


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_convert(memory, tmp_path, suffix):
    url = put(f"{memory}/linear.pt2", EXPORTED)
    here, there = tmp_path / f"out{suffix}", f"{memory}/out{suffix}"
    assert run("convert", EXPORTED, here).exit_code == 0
    found = run("convert", url, there, "--json")
    assert json.loads(found.stdout)["out"] == there
    assert fsspec.filesystem("memory").cat(f"/commands/out{suffix}") == here.read_bytes()


def test_optimize_and_salvage(memory, tmp_path):
    url = put(f"{memory}/sequential.pt", SEQUENTIAL)
    assert run("optimize", url, "-o", f"{memory}/fast.pt").exit_code == 0
    assert run("verify", f"{memory}/fast.pt").exit_code == 0
    out = f"{memory}/saved.safetensors"
    assert run("tensors", url, "--salvage", out).exit_code == 0
    again = run("tensors", url, "--salvage", out)
    assert again.exit_code == 2
    assert "is there already" in again.output
    assert run("optimize", url, "-o", url).exit_code == 2


def test_digests_of_files(memory):
    url = put(f"{memory}/sequential.pt", SEQUENTIAL)
    code, text = outcome("fingerprint", "--in-toto", SEQUENTIAL)
    assert outcome("fingerprint", "--in-toto", url) == (code, text.replace(str(SEQUENTIAL), url))


def test_what_takes_no_urls(memory, tmp_path):
    url = put(f"{memory}/linear.pte", PROGRAM)
    for args in (("edit", url, "-o", tmp_path / "a.pte"), ("edit", PROGRAM, "-o", url)):
        found = run(*args)
        assert found.exit_code == 2
        assert "Files are edited where they are" in found.output
    assert "reads no URLs" in run("demo", url).output
    found = run("decompile", PROGRAM, "-o", f"{memory}/package")
    assert "not to a URL" in found.output
    found = run("run", SEQUENTIAL, "--random", "2x3", "--out", f"{memory}/out.npy")
    assert "outputs are written to paths" in found.output
    found = run("run", SEQUENTIAL, f"{memory}/in.npy")
    assert "from which models are read, but no inputs" in found.output


# Credentials.

SECRETS = PASSWORD, SIGNATURE, TOKEN = "hunter22", "5ecre7", "70ken5"


@pytest.fixture
def protected():
    """A server that asks for a password, and the URL with it."""

    def refuse(request, answer):
        if "Authorization" not in request.headers or f"sig={SIGNATURE}" not in request.path:
            answer.status, answer.body, answer.headers = 401, b"", {"Content-Length": "0"}

    with web_server({"/model.pt": SEQUENTIAL.read_bytes()}) as server:
        server.fault = refuse
        start = server.url.replace("//", f"//ann:{PASSWORD}@")
        yield f"{start}/model.pt?sig={SIGNATURE}&token={TOKEN}"


ALL = (*READING, *RUNNING, ("diff", "{}"), ("report", "-o", "{tmp}/page.html"),
       ("convert", "{tmp}/new.pt"), ("optimize", "-o", "{tmp}/fast.pt", "--force"),
       ("tensors", "--salvage", "{tmp}/saved.safetensors", "--force"),
       ("fingerprint", "--in-toto"), ("decompile", "-o", "{tmp}/package", "--force"))  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_no_credentials_in_output(protected, tmp_path, command):
    name, *options = command
    for url, codes in ((protected, (0, 1)), (protected.replace(SIGNATURE, "wr0ng5"), (2,))):
        told = [one.replace("{}", url).replace("{tmp}", str(tmp_path)) for one in options]
        is_json = "--in-toto" not in told
        for more in ([], *([["--json"]] if is_json else []), ["--traceback"]):
            found = CliRunner().invoke(main, [name, url, *told, *more])
            assert found.exit_code in codes, found.output
            assert not [one for one in (*SECRETS, "wr0ng5") if one in found.output]
    for path in tmp_path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [one for one in SECRETS if one.encode() in content]


def test_no_credentials_in_usage_errors(protected):
    for args in (["info", "--nothing", protected], ["stub", protected, protected],
                 ["report", protected, "-o", "-", "--against=" + protected],
                 ["convert", protected, "x.nothing"], ["nothing", protected]):  # fmt: skip
        found = CliRunner().invoke(main, args)
        assert found.exit_code == 2
        assert not [one for one in SECRETS if one in found.output]


LOOKING = (*READING[:4], ("audit",), ("compat",), ("fingerprint", "--no-weights"), ("diff", "{}"))


@pytest.mark.whole
@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_what_is_fetched_is_bound(memory, tmp_path, command):
    """The hint names the option; 0 is no bound."""
    path = tmp_path / "large.pt"
    path.write_bytes(with_inputs_ahead())
    url = put(f"{memory}/large.pt", path)
    asked = command[0], url, *(one.replace("{}", url) for one in command[1:])
    for option, few in (("--max-requests", "1"), ("--max-fetched", "128KiB")):
        found = run(*asked, option, few)
        assert found.exit_code == 2
        more = re.search(rf"allow more of it: {option} (\d+)$", found.stderr, re.MULTILINE)
        assert more, found.stderr
        for enough in (0, 2 * int(more[1])):
            assert run(*asked, option, enough).exit_code in (0, 1)


def test_warnings_are_a_line_of_stderr():
    def send_all(request, answer):
        answer.status, answer.body = 200, data
        answer.headers = {"Content-Length": str(len(data))}

    data = made("torchscript")
    with web_server({"/model.pt": data}) as server:
        server.fault = send_all
        found = run("tree", f"{server.url}/model.pt", "--json")
    told = "the server answers without byte ranges, so all"
    assert found.stderr.startswith(f"warning: {server.url}/model.pt: {told}")
    assert found.stderr.count("\n") == 1


# URLs in files.


@pytest.mark.whole
@pytest.mark.parametrize("file", [SEQUENTIAL, EXPORTED], ids=lambda file: file.suffix)
@pytest.mark.parametrize("command", [*READING, *RUNNING], ids=" ".join)
def test_no_url_of_a_file_is_followed(tmp_path, file, command):
    """Whatever names another file, or may be taken for it, is a URL; nothing asks for it."""
    with web_server({}) as server:
        made = _naming(file, f"{server.url}/other.pt", tmp_path)
        found = CliRunner().invoke(main, [command[0], str(made), *command[1:]])
        assert found.exit_code in (0, 1, 2), found.output
        assert server.requests == []


def _naming(file: Path, url: str, folder: Path) -> Path:
    """An archive whose extra files and JSON name a URL in the place of every path."""
    made = folder / file.name
    with Container.open(file) as opened:
        names = [name for name in opened.records if name != SERIALIZATION_ID]
        records = {name: bytes(opened.read(name)) for name in names}
        root = opened.root
    for name, data in records.items():
        if name.endswith("_config.json"):
            records[name] = data.replace(b'"weight_', b'"' + url.encode() + b"/weight_")
    records["extra/link.url"] = url.encode()
    write_container(made, [NewRecord(*record) for record in records.items()], root=root)
    return made


def test_no_url_of_a_list_is_followed(memory, tmp_path):
    url = put(f"{memory}/sequential.pt", SEQUENTIAL)
    (tmp_path / "SUMS").write_text(run("fingerprint", url).stdout)
    found = run("fingerprint", "--check", tmp_path / "SUMS")
    assert found.exit_code == 2
    assert "URLs that a list names are not followed" in found.output
