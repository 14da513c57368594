"""Which files a survey finds: folders, single files, lists, and filesystems elsewhere."""

from __future__ import annotations

import errno
import io
import os
import zipfile

import pytest

from tests.support.archives import ARCHIVES
from tsarchive.errors import RemoteError
from tsarchive.surveying.listing import SUFFIXES, Listed, listed, name_of, named_in, text_of
from tsarchive.surveying.reading import Aspects, surveyed


def paths(root, **options) -> list[str]:
    return sorted(file.path for file in listed(os.fspath(root), **options))


def put(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def test_a_folder_has_the_models_below_it(tmp_path):
    put(tmp_path, "a.pt", "b/c.PTH", "b/d/e.pt2", "notes.txt", ".hidden.pt", ".git/f.pt", "pt")
    assert paths(tmp_path) == ["a.pt", "b/c.PTH", "b/d/e.pt2"]
    assert paths(tmp_path, all_files=True) == ["a.pt", "b/c.PTH", "b/d/e.pt2", "notes.txt", "pt"]


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pt2", ".pte", ".ptd", ".ckpt", ".bin", ".pkl"])
def test_suffixes_of_models_are_known(suffix):
    assert suffix in SUFFIXES


def test_a_file_is_told_with_size_and_version(tmp_path):
    put(tmp_path, "b/c.pt")
    path = tmp_path / "b" / "c.pt"
    version = str(path.stat().st_mtime_ns)
    assert [*listed(f"{tmp_path}/")] == [Listed(str(tmp_path), "b/c.pt", str(path), 6, version)]
    assert [*listed(str(path))] == [Listed("", str(path), str(path), 6, version)]


def test_one_file_needs_no_suffix(tmp_path):
    put(tmp_path, ".model")
    assert paths(tmp_path / ".model") == [str(tmp_path / ".model")]


def test_links_lead_to_files_of_the_root_alone(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    put(root, "blobs/1", "snapshot/x.txt")
    put(outside, "secret.pt")
    (root / "snapshot" / "model.pt").symlink_to(root / "blobs" / "1")
    (root / "snapshot" / "out.pt").symlink_to(outside / "secret.pt")
    (root / "snapshot" / "gone.pt").symlink_to(root / "nothing.pt")
    (root / "round").symlink_to(root, target_is_directory=True)
    (root / "away").symlink_to(outside, target_is_directory=True)
    assert paths(root) == ["snapshot/model.pt"]


def test_names_that_are_no_text_stand_as_escapes(tmp_path):
    name = os.fsdecode(b"\xff.pt")
    try:
        put(tmp_path, "x.pt")
        os.rename(tmp_path / "x.pt", tmp_path / name)
    except OSError:
        pytest.skip("the filesystem takes text alone")
    (found,) = listed(str(tmp_path))
    assert (found.path, found.place) == (r"\udcff.pt", str(tmp_path / name))
    assert text_of(name) == found.path


def test_no_two_names_have_the_same_text():
    names = ["b\udcff", r"b\udcff", r"b\\udcff", "\\b\udcff", r"\b\udcff", r"\b", r"\\b", "b"]
    assert len({*map(text_of, names)}) == len(names)
    assert [text_of(name) for name in (r"a\b", "é")] == [r"a\b", "é"]


def test_links_that_cannot_be_followed_are_told(tmp_path):
    put(tmp_path, "a.pt", "below/b.pt", "below/c.pt")
    for name in ("round.pt", "below/round.pt"):
        (tmp_path / name).symlink_to(tmp_path / name)
    found = {file.path: file for file in listed(str(tmp_path))}
    assert {*found} == {"a.pt", "round.pt", "below/b.pt", "below/c.pt", "below/round.pt"}
    row = surveyed(found["below/round.pt"], Aspects()).file
    assert (row.status, row.problem) == ("failed", os.strerror(errno.ELOOP))


def test_what_no_file_can_be_called_is_told(tmp_path):
    put(tmp_path, "a.pt")
    (tmp_path / "list.txt").write_text(f"a\0.pt\n{tmp_path / 'a.pt'}\n")
    odd, known = named_in(str(tmp_path / "list.txt"))
    assert known.nbytes == 4
    row = surveyed(odd, Aspects()).file
    assert (row.status, row.problem) == ("failed", os.strerror(errno.ENOENT))


def test_a_root_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        [*listed(str(tmp_path / "nothing"))]


def test_a_list_names_roots(tmp_path):
    put(tmp_path, "models/a.pt", "models/b.pt", "c.pt")
    lines = [str(tmp_path / "models"), "", f"  {tmp_path / 'c.pt'} ", str(tmp_path / "gone.pt")]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    found = {file.path: file.nbytes for file in named_in(str(tmp_path / "list.txt"))}
    expected = {"a.pt": 11, "b.pt": 11, str(tmp_path / "c.pt"): 4}
    assert found == {**expected, str(tmp_path / "gone.pt"): None}


def test_a_root_has_one_name_however_it_is_written():
    assert name_of("models/") == name_of("./models") == "models"
    assert name_of("s3://bucket/models/") == "s3://bucket/models"
    assert name_of("memory://") == "memory://"


def test_names_of_roots_have_no_credentials():
    assert name_of("https://ann:secret@example.org/a.pt?sig=1#x") == "https://example.org/a.pt"


@pytest.fixture
def memory():
    """A filesystem of fsspec with models, and what else lies there."""
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    for name in ("a.pt", "b/c.pth", "b/.hidden/d.pt", "b/notes.txt"):
        filesystem.pipe(f"/survey/{name}", name.encode())
    yield filesystem
    filesystem.rm("/survey", recursive=True)


def test_a_bucket_is_listed_like_a_folder(memory):
    found = {file.path: file for file in listed("memory://survey/")}
    assert {path: file.nbytes for path, file in found.items()} == {"a.pt": 4, "b/c.pth": 7}
    assert {file.root for file in found.values()} == {"memory://survey"}
    assert found["b/c.pth"].place == "memory://survey/b/c.pth"
    assert all(file.version for file in found.values())


def test_versions_elsewhere_change_with_files(memory):
    (before,) = listed("memory://survey/a.pt")
    memory.pipe("/survey/a.pt", b"more")
    (after,) = listed("memory://survey/a.pt")
    assert before.place == after.place == "memory://survey/a.pt"
    assert before.version != after.version


def test_a_url_without_its_package_says_what_to_install():
    registry = pytest.importorskip("fsspec.registry")
    name = "tsarchive-elsewhere"
    registry.known_implementations[name] = {"class": "nowhere.Files", "err": "Install nowhere"}
    try:
        with pytest.raises(RemoteError, match="Install nowhere") as raised:
            [*listed(f"{name}://ann:secret@host/models")]
    finally:
        del registry.known_implementations[name]
    assert raised.value.hint == "pip install nowhere"
    assert "secret" not in str(raised.value)


def test_an_unknown_scheme_is_an_error_without_credentials():
    pytest.importorskip("fsspec")
    with pytest.raises(RemoteError, match="elsewhere") as raised:
        [*listed("elsewhere://ann:secret@host/models")]
    assert "secret" not in str(raised.value)


_ODD = ["a::b.pt", "a?b.pt", "a#b.pt", "a%20b.pt", "a b.pt", "a::memory:b.pt", "é.pt", "[a]*.pt"]


@pytest.mark.parametrize("aspects", [Aspects(), Aspects(digest=False, weights=False, verify=False)])
def test_names_in_buckets_are_no_urls(memory, aspects):
    content = (ARCHIVES / "sequential.pt").read_bytes()
    for name in _ODD:
        memory.pipe_file(f"/survey/odd/{name}", content)
    rows = [surveyed(file, aspects).file for file in listed("memory://survey/odd")]
    assert sorted(row.path for row in rows) == sorted(_ODD)
    assert {(row.status, row.nbytes, row.problem) for row in rows} == {("read", len(content), "")}


@pytest.mark.parametrize("name", ["a//c.pt", "/d.pt", "a::https://host/e.pt", "a////f/g.pt"])
def test_folders_without_a_name_are_listed(memory, name):
    memory.pipe_file(f"/survey/{name}", b"content")
    memory.pipe_file("/survey//.git/h.pt", b"hidden")
    found = {file.path: file for file in listed("memory://survey")}
    assert {*found} == {"a.pt", "b/c.pth", name}
    row = surveyed(found[name], Aspects()).file
    assert (row.status, row.nbytes) == ("foreign", len(b"content"))


def test_members_of_packed_files_name_nothing_elsewhere(memory):
    content = (ARCHIVES / "sequential.pt").read_bytes()
    name = "a.pt::memory:survey.pt"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    memory.pipe_file("/survey/all.zip", packed.getvalue())
    (file,) = listed("zip://::memory://survey/all.zip")
    row = surveyed(file, Aspects()).file
    assert (row.path, row.status, row.nbytes) == (name, "read", len(content))


def test_a_listing_tells_of_now(memory):
    assert len([*listed("memory://survey")]) == 2
    memory.pipe_file("/survey/c.pt", b"c")
    assert len([*listed("memory://survey")]) == 3


def test_errors_of_listings_have_no_credentials(memory, monkeypatch):
    def fail(*args, **options):
        raise ValueError("cannot reach memory://ann:hunter22@survey")

    monkeypatch.setattr(type(memory), "ls", fail)
    with pytest.raises(RemoteError, match="cannot reach") as raised:
        [*listed("memory://survey")]
    assert "hunter22" not in str(raised.value)


def test_what_is_not_there_is_told_without_credentials():
    pytest.importorskip("fsspec")
    with pytest.raises(RemoteError, match="memory://ann@host/nothing") as raised:
        [*listed("memory://ann:secret@host/nothing")]
    assert "secret" not in str(raised.value)


def test_a_root_of_a_list_that_cannot_be_listed_is_a_file_of_it(tmp_path):
    pytest.importorskip("fsspec")
    places = ["memory://nothing/at/all", "elsewhere://host/models"]
    (tmp_path / "list.txt").write_text("\n".join(places))
    assert [*named_in(str(tmp_path / "list.txt"))] == [Listed("", each, each) for each in places]
