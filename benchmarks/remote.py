"""What files elsewhere cost: loading beside a plain download, and what each command asks for.

    python benchmarks/remote.py [--json] [--gib N] [--runs N] [--only load|requests]

The files are on a web server on loopback, a process of its own. ``load`` is the time of
``tsarchive.load`` of an archive of so many GiB, ``plain`` that of a download of the same file into
memory by as many connections, each in a thread of its own, ``fsspec`` that of one through the
client that ``load`` uses as well; pieces are of the same size. Each is in fresh processes that have
imported what they need: medians of so many runs, taken in turns. ``memory`` is the peak of the
process beyond what it had before.

The other table has, for each command and network, the requests that the server has answered and
the bytes that it has sent. Networks are ResNet-18 and a recurrent decoder of ``fixtures/models``,
and files of public projects where the corpus is there.
"""

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from urllib.parse import quote, unquote, urlsplit
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from measured import measured, table  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
OF_CORPUS = ("torchscript/pypi-kelp_o_matic-*", "pt2/*", "pte/*")
TRAFFIC = "/traffic"
COMMANDS = (
    "info", "tree", "code", "tensors", "audit", "verify", "fingerprint --no-weights", "compat",
    "diff",
)  # fmt: skip
LAYER = 4096  # a matrix of so many rows and columns has 64 MiB


# The server


class Server(ThreadingHTTPServer):
    """Takes no notice of clients that leave."""

    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


class Handler(BaseHTTPRequestHandler):
    """Sends files of the folder by ranges, and counts."""

    protocol_version = "HTTP/1.1"
    requests = nbytes = 0

    def do_HEAD(self) -> None:
        size = Path(Path(unquote(self.path)).name).stat().st_size
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def do_GET(self) -> None:
        if self.path == TRAFFIC:
            self._send_traffic()
            return
        with open(Path(unquote(self.path)).name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start, stop = span_of(self.headers["Range"], size)
            Handler.requests += 1
            Handler.nbytes += stop - start
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", f'"{size:x}"')
            self.end_headers()
            self.wfile.flush()
            while start < stop:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, stop - start)

    def _send_traffic(self) -> None:
        body = json.dumps([Handler.requests, Handler.nbytes]).encode()
        Handler.requests = Handler.nbytes = 0
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def span_of(asked: str, size: int) -> tuple[int, int]:
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
    assert found is not None, asked
    first, last = found.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1 if last else size)


def serve(folder: str) -> None:
    """Serve a folder on a free port, which is printed, until the process is ended."""
    os.chdir(folder)
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


@contextmanager
def server_of(folder: Path) -> Iterator[str]:
    """Start a server in a process of its own; its URL."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def traffic(server: str) -> tuple[int, int]:
    """Return the requests and bytes since the last call."""
    with urlopen(server + TRAFFIC) as response:
        requests, nbytes = json.load(response)
    return requests, nbytes


# Loading beside a plain download


def plain(url: str) -> Callable[[], object]:
    """Download a file into memory, in pieces by several connections."""
    from tsarchive.remote.parallel import CONNECTIONS, PIECE_BYTES

    place = urlsplit(url)

    def connected() -> http.client.HTTPConnection:
        assert place.hostname is not None
        return http.client.HTTPConnection(place.hostname, place.port)

    def size() -> int:
        connection = connected()
        connection.request("GET", place.path, headers={"Range": "bytes=-1"})
        with connection.getresponse() as response:
            return int(response.headers["Content-Range"].rpartition("/")[2])

    def download() -> bytearray:
        data = bytearray(size())
        starts = iter(range(0, len(data), PIECE_BYTES))

        def work(_: int) -> None:
            connection = connected()
            for start in starts:
                stop = min(start + PIECE_BYTES, len(data))
                headers = {"Range": f"bytes={start}-{stop - 1}"}
                connection.request("GET", place.path, headers=headers)
                with connection.getresponse() as response, memoryview(data)[start:stop] as memory:
                    done = 0
                    while done < len(memory):
                        done += response.readinto(memory[done:])

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(work, range(CONNECTIONS)))
        return data

    return download


def load(url: str) -> Callable[[], object]:
    import tsarchive

    _ = tsarchive.load  # with what it imports
    import tsarchive.remote.opening

    return lambda: tsarchive.load(url)


def through_fsspec(url: str) -> Callable[[], object]:
    """Download the same pieces through fsspec."""
    import fsspec

    from tsarchive.remote.parallel import CONNECTIONS, PIECE_BYTES

    filesystem = fsspec.filesystem("http")

    def download() -> object:
        size = filesystem.info(url)["size"]
        starts = [*range(0, size, PIECE_BYTES)]
        stops = [min(start + PIECE_BYTES, size) for start in starts]
        urls = [url] * len(starts)
        return filesystem.cat_ranges(urls, starts, stops, batch_size=CONNECTIONS)

    return download


WAYS = {"plain": plain, "fsspec": through_fsspec, "load": load}


def measure(way: str, url: str) -> None:
    """Print the seconds of one run, and the bytes of memory that it took at most."""
    run = WAYS[way](url)
    before = peak()
    start = time.perf_counter()
    kept = run()
    seconds = time.perf_counter() - start
    nbytes = peak() - before
    del kept
    print(json.dumps([seconds, nbytes]))


def peak() -> int:
    """Return the most bytes of memory that this process has had so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def measured_in_child(way: str, url: str) -> tuple[float, int]:
    command = [sys.executable, __file__, "--measure", way, url]
    seconds, nbytes = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
    return seconds, nbytes


def load_rows(folder: Path, gib: float, runs: int) -> list[dict[str, object]]:
    file = folder / "large.pt"
    make_large(file, round(gib * (1 << 30) / (4 * LAYER * LAYER)))
    size = file.stat().st_size
    with server_of(folder) as server:
        found: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
        for _ in range(runs):
            for way, figures in found.items():
                figures.append(measured_in_child(way, f"{server}/{file.name}"))
    file.unlink()
    seconds = {way: median(one for one, _ in figures) for way, figures in found.items()}
    return [
        {
            "way": way,
            "GiB": round(size / (1 << 30), 2),
            "seconds": round(seconds[way], 2),
            "ratio": round(seconds[way] / seconds["plain"], 2),
            "memory": f"{max(nbytes for _, nbytes in figures) / size:.2f} of the file",
        }
        for way, figures in found.items()
    ]


def make_large(file: Path, layers: int) -> None:
    import torch

    made = (torch.nn.Linear(LAYER, LAYER, bias=False) for _ in range(layers))
    torch.jit.script(torch.nn.Sequential(*made)).save(str(file))


# What commands ask for


def make_networks(folder: Path) -> Iterator[Path]:
    """Write networks into the folder."""
    import torch

    from fixtures.models import decoder, resnet

    network = resnet.ResNet18().eval()
    made = {
        "resnet18.pt": lambda file: torch.jit.script(network).save(file),
        "resnet18.pt2": lambda file: torch.export.save(
            torch.export.export(network, (torch.ones(2, 3, 224, 224),)), file
        ),
        "decoder.pt": lambda file: torch.jit.script(decoder.Decoder(30_000, 256)).save(file),
    }
    for name, write in made.items():
        write(str(folder / name))
        yield folder / name
    for pattern in OF_CORPUS:
        found = [path for path in CORPUS.glob(pattern) if path.is_file()]
        if found:
            largest = max(found, key=lambda path: path.stat().st_size)
            copy = folder / largest.name
            copy.write_bytes(largest.read_bytes())
            yield copy


def request_rows(folder: Path) -> list[dict[str, object]]:
    files = [*make_networks(folder)]
    with server_of(folder) as server:
        return [row_of(file, server) for file in files]


def row_of(file: Path, server: str) -> dict[str, object]:
    import tsarchive

    url = f"{server}/{quote(file.name)}"
    row: dict[str, object] = {"file": file.name, "bytes": f"{file.stat().st_size:,}"}
    traffic(server)
    tsarchive.open(url).close()
    row["open"] = told(traffic(server))
    for command in COMMANDS:
        run_command(command.split(), url)
        row[command] = told(traffic(server))
    return row


def run_command(words: Sequence[str], url: str) -> None:
    from click.testing import CliRunner

    from tsarchive.cli import main

    given = [url, url] if words[0] == "diff" else [url]
    done = CliRunner().invoke(main, [*words, *given])
    if done.exit_code > 1:
        print(f"{' '.join(words)} {url}: {done.output[-300:]}", file=sys.stderr)


def told(cost: tuple[int, int]) -> str:
    requests, nbytes = cost
    return f"{requests} / {nbytes / 1024:,.0f} KiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("load", "requests"))
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
    elif given.measure is not None:
        measure(*given.measure)
    else:
        show(given)


def show(given: argparse.Namespace) -> None:
    found: dict[str, list[dict[str, object]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if given.only != "requests":
            found["load"] = load_rows(Path(folder), given.gib, given.runs)
        if given.only != "load":
            found["requests"] = request_rows(Path(folder))
    if given.as_json:
        print(json.dumps(found, indent=2))
        return
    for rows in found.values():
        print(table([*rows[0]] if rows else [], rows), end="\n\n")
    print(measured())


if __name__ == "__main__":
    main()
