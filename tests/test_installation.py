"""What is installed: a wheel, away from the sources, in surroundings of all kinds."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from filelock import FileLock

import tsarchive
from tests.support.archives import ARCHIVES, ROOT

LINKS = {
    "pickler": "pickler",
    "printer": "printer",
    "models": "fixtures/models",
    "demo": "fixtures/demo",
}


@pytest.mark.parametrize("name", LINKS)
def test_links_lead_from_the_package_to_its_folders(name):
    assert (ROOT / "tsarchive" / name).resolve() == (ROOT / LINKS[name]).resolve()


def run(*command: object, cwd: Path, **variables: str) -> str:
    """What a command prints, with nothing in its environment but these variables."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_editable_install_puts_the_package_alone_on_the_path():
    """Nothing there hides the ``tests`` or ``fixtures`` of whoever installs it."""
    folder = ROOT / ".package"
    assert (folder / "tsarchive").resolve() == ROOT / "tsarchive"
    assert {path.name for path in folder.iterdir()} <= {"tsarchive", "tsarchive.egg-info"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel that is made from the sdist."""
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    # setuptools collects the files in a folder of the checkout, which has room for one build.
    with FileLock(tmp_path_factory.getbasetemp().parent / "sdist.lock"):
        run(sys.executable, "-c", code, folder, cwd=ROOT, **os.environ)
    (sdist,) = folder.glob("*.tar.gz")
    command = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder)
    run(sys.executable, *command, sdist, cwd=folder, **os.environ)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """An environment of its own, which has the wheel, and torch from where the tests have it."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder, cwd=folder, **os.environ)
    programs = folder / "bin"
    run(programs / "pip", "install", "--quiet", "--no-deps", wheel, cwd=folder, **os.environ)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    return programs


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders are other ones there")
STAND_IN = "test_links_lead_from_the_package_to_its_folders"


def test_one_version_is_told_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {tsarchive.__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {tsarchive.__version__}\n" in changelog


@pytest.mark.long(STAND_IN)
def test_the_wheel_has_every_file_of_the_package(wheel):
    folders = [ROOT / "tsarchive", *(ROOT / folder for folder in LINKS.values())]
    here = {path.name for folder in folders for path in folder.rglob("*.py")}
    names = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).name for name in names if name.endswith(".py")} == here
    tables = {f"operators/{path.name}" for path in (ROOT / "tsarchive/operators").glob("*.txt")}
    others = {"py.typed", "reporting/style.css", "reporting/page.js", *tables}
    assert {f"tsarchive/{name}" for name in others} <= {*names}


@pytest.mark.long(STAND_IN)
@pytest.mark.parametrize(
    "command",
    [("tsarchive", "demo"), ("python", "-I", "-m", "tsarchive", "demo")],
    ids=["command", "isolated"],
)
def test_the_demo_writes_nothing_where_it_is_installed(environment, command, tmp_path):
    program, *arguments = command
    variables = {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tmp_path)}
    before = set(environment.parent.rglob("*"))
    shown = run(environment / program, *arguments, cwd="/", **variables)
    assert set(environment.parent.rglob("*")) == before
    assert "outputs are equal to the bit, saved bytes are stable" in shown


@pytest.mark.long(STAND_IN)
def test_the_package_is_imported_from_the_wheel_itself(environment, wheel, tmp_path):
    """As frozen applications import theirs: nothing of the package is a file."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import tsarchive, torch\n"
        "assert '.whl' in tsarchive.__file__\n"
        "module = tsarchive.load(sys.argv[2])\n"
        "tsarchive.save(module, 'saved.pt')\n"
        "tsarchive.report('saved.pt', 'page.html')\n"
        "assert tsarchive.verify('saved.pt').ok and tsarchive.audit('saved.pt').ok\n"
        "print(tsarchive.operators.registry.versions_with('aten::add'))"
    )
    shown = run(environment / "python", "-c", code, wheel, ARCHIVES / "sequential.pt", cwd=tmp_path)
    assert shown.startswith("torch 2.6 to")
