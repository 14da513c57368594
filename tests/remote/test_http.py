"""Files on web servers, good ones and bad ones."""

from __future__ import annotations

import asyncio
import random
import socket
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import pytest

from tests.support.web_server import Answer, Request, web_server
from tsarchive.errors import RemoteError
from tsarchive.remote.ranges import Tail
from tsarchive.remote.urls import Url

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from tsarchive.remote.http import HttpRanges  # noqa: E402
from tsarchive.remote.http_bodies import _Rest  # noqa: E402
from tsarchive.remote.http_client import Manners  # noqa: E402

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
COUNT = 1000
SPANS = ((0, 10), (70_000, 200_000), (299_000, 299_500))
QUICK = Manners(connect=60, silence=60, attempts=3, first_pause=0, longest_pause=5, redirects=3,
                whole_bytes=400_000)  # fmt: skip
# Where servers fall silent, which this machine may seem to do as well.
IMPATIENT = replace(QUICK, silence=0.3)


def opened(url: str, **options) -> HttpRanges:
    manners = options.pop("manners", QUICK)
    filesystem = fsspec.filesystem("https", skip_instance_cache=True, **options)
    return HttpRanges(Url(url), filesystem, manners)


def read(ranges: HttpRanges, spans=SPANS) -> list[bytes]:
    """The bytes of spans, filled in one call."""
    memories = [bytearray(stop - start) for start, stop in spans]
    ranges.read_into([(span[0], memoryview(m)) for span, m in zip(spans, memories, strict=True)])
    return [bytes(memory) for memory in memories]


RIGHT = [CONTENT[start:stop] for start, stop in SPANS]


# Faults: each changes an answer to some of the requests.


def no_fault(request: Request, answer: Answer) -> None:
    pass


def without_suffixes(request: Request, answer: Answer) -> None:
    """As Azure's blobs: ranges that count from the end are not known."""
    if request.headers["Range"].startswith("bytes=-"):
        answer.status, answer.body = 200, CONTENT
        answer.headers.pop("Content-Range")
        answer.headers["Content-Length"] = str(len(CONTENT))


def suffix_from_beginning(request: Request, answer: Answer) -> None:
    if request.headers["Range"].startswith("bytes=-"):
        answer.body = CONTENT[: COUNT + 1]
        answer.headers["Content-Range"] = f"bytes 0-{COUNT}/{len(CONTENT)}"
        answer.headers["Content-Length"] = str(COUNT + 1)


def refused_suffix(request: Request, answer: Answer) -> None:
    if request.headers["Range"].startswith("bytes=-"):
        answer.status, answer.body = 416, b""
        answer.headers = {"Content-Range": f"bytes */{len(CONTENT)}", "Content-Length": "0"}


def size_untold(request: Request, answer: Answer) -> None:
    answer.headers["Content-Range"] = answer.headers["Content-Range"].rpartition("/")[0] + "/*"


def without_version(request: Request, answer: Answer) -> None:
    answer.headers.pop("ETag", None)


def weak_version(request: Request, answer: Answer) -> None:
    """A weak ETag never matches If-Match."""
    assert "If-Match" not in request.headers
    answer.headers["ETag"] = "W/" + answer.headers["ETag"]


def on_request(*numbers: int) -> Callable[[Callable], Callable]:
    """Let a fault happen to requests of these numbers alone."""

    def decorate(fault: Callable) -> Callable:
        def chosen(request: Request, answer: Answer) -> None:
            if request.number in numbers:
                fault(request, answer)

        return chosen

    return decorate


@on_request(0, 1, 3, 5)
def busy(request: Request, answer: Answer) -> None:
    answer.status, answer.body = 503, b""
    answer.headers = {"Content-Length": "0", "Retry-After": "0"}


@on_request(1)
def too_many(request: Request, answer: Answer) -> None:
    answer.status, answer.body = 429, b""
    answer.headers = {"Content-Length": "0"}


@on_request(0, 2)
def no_answer(request: Request, answer: Answer) -> None:
    answer.status = 0


@on_request(0, 2, 3)
def breaks_off(request: Request, answer: Answer) -> None:
    answer.sent = len(answer.body) // 2


@on_request(2)
def falls_silent(request: Request, answer: Answer) -> None:
    answer.sent, answer.silent = len(answer.body) // 3, True


def chunked(request: Request, answer: Answer) -> None:
    answer.headers.pop("Content-Length")
    answer.headers["Transfer-Encoding"] = "chunked"
    answer.body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer.body), answer.body)


READS = (
    no_fault, without_suffixes, suffix_from_beginning, refused_suffix, size_untold,
    without_version, weak_version, busy, too_many, no_answer, breaks_off, chunked,
)  # fmt: skip


@pytest.fixture
def server():
    with web_server({"/model.pt": CONTENT, "/empty": b"", "/short": b"abc"}) as found:
        yield found


@pytest.fixture(params=[1, 1 << 40], ids=["direct", "copied"])
def way(request, monkeypatch):
    """From how many bytes on bodies are read from their connections directly."""
    monkeypatch.setattr("tsarchive.remote.http_bodies._LONG", request.param)
    return request.param


@pytest.mark.whole
@pytest.mark.parametrize("fault", READS)
def test_reads(server, way, fault):
    server.fault = fault
    ranges = opened(f"{server.url}/model.pt")
    assert ranges.tail(COUNT) == Tail(len(CONTENT), CONTENT[-COUNT:])
    assert read(ranges) == RIGHT


def test_what_fell_silent_goes_on(server, way):
    server.fault = falls_silent
    ranges = opened(f"{server.url}/model.pt", manners=replace(IMPATIENT, attempts=100))
    assert ranges.tail(COUNT) == Tail(len(CONTENT), CONTENT[-COUNT:])
    assert read(ranges) == RIGHT


def test_what_broke_off_goes_on_where_it_ended(server, way):
    ranges = opened(f"{server.url}/model.pt")
    ranges.tail(COUNT)
    server.fault = on_request(1, 2)(lambda request, answer: setattr(answer, "sent", 100))
    assert read(ranges, [(0, 1000)]) == [CONTENT[:1000]]
    asked = [request.headers["Range"] for request in server.requests]
    assert asked == ["bytes=-1000", "bytes=0-999", "bytes=100-999", "bytes=200-999"]


def test_connections_serve_again(server):
    ranges = opened(f"{server.url}/model.pt")
    ranges.tail(COUNT)
    for start in range(0, 5000, 1000):
        read(ranges, [(start, start + 1000)])
    assert len(server.connections) == 1


def test_asks_for_bytes_as_they_are(server):
    ranges = opened(f"{server.url}/model.pt", headers={"Accept-Encoding": "gzip", "X-Me": "1"})
    ranges.tail(COUNT)
    read(ranges)
    assert {request.headers["Accept-Encoding"] for request in server.requests} == {"identity"}
    assert {request.headers["X-Me"] for request in server.requests} == {"1"}
    assert server.requests[0].headers["If-Match"] is None
    assert all(request.headers["If-Match"] for request in server.requests[1:])


@pytest.mark.parametrize("name", ["empty", "short"])
def test_small_files(server, name):
    content = server.files[f"/{name}"]
    assert opened(f"{server.url}/{name}").tail(COUNT) == Tail(len(content), content)
    assert len(server.requests) == 1


def answering_all(answer: Answer, content: bytes) -> None:
    answer.status, answer.body = 200, content
    answer.headers = {"Content-Length": str(len(content)), "ETag": answer.headers["ETag"]}


def no_ranges(request: Request, answer: Answer) -> None:
    answering_all(answer, CONTENT)


def no_ranges_nor_length(request: Request, answer: Answer) -> None:
    no_ranges(request, answer)
    chunked(request, answer)


def ranges_promised(request: Request, answer: Answer) -> None:
    no_ranges(request, answer)
    answer.headers["Accept-Ranges"] = "bytes"


def refused_without_size(request: Request, answer: Answer) -> None:
    if "Range" in request.headers:
        answer.status, answer.body, answer.headers = 416, b"", {"Content-Length": "0"}


@pytest.mark.whole
@pytest.mark.parametrize("fault", [
    no_ranges, no_ranges_nor_length, ranges_promised, refused_without_size,
])  # fmt: skip
def test_servers_without_ranges_are_read_whole(server, fault):
    server.fault = fault
    with pytest.warns(UserWarning, match="without byte ranges, so all 300,000 bytes were read"):
        found = opened(f"{server.url}/model.pt").tail(COUNT)
    assert found == Tail(len(CONTENT), CONTENT)


@pytest.mark.parametrize("fault", [no_ranges, no_ranges_nor_length])
def test_large_files_are_not_read_whole(server, fault):
    server.fault = fault
    limit = len(CONTENT) - 1
    with pytest.raises(RemoteError, match=r"too large to be read whole.*simplecache::") as found:
        opened(f"{server.url}/model.pt", manners=Manners(whole_bytes=limit)).tail(COUNT)
    assert found.value.limit == limit


def test_what_is_read_whole_is_in_memory_once(server):
    server.files["/large.pt"] = bytes(16 << 20)
    server.fault = lambda request, answer: answering_all(answer, server.files["/large.pt"])
    ranges = opened(f"{server.url}/large.pt", manners=Manners())
    tracemalloc.start()
    with pytest.warns(UserWarning, match="without byte ranges"):
        ranges.tail(COUNT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.75 * (16 << 20)


def drips(request: Request, answer: Answer) -> None:
    answer.status, answer.is_dripping = 0, True


@pytest.fixture
def fast_clock(monkeypatch):
    """A clock that goes on by ten days at each look."""
    clock = count(0, 10 * 24 * 3600)
    monkeypatch.setattr("tsarchive.remote.http_client.monotonic", lambda: next(clock))


@pytest.mark.usefixtures("fast_clock")
@pytest.mark.parametrize("fault", [no_fault, no_ranges])
def test_bodies_that_come_slowly(server, way, fault):
    server.fault = fault
    message = "the server sends less than 1,024 bytes in a second, 3 times"
    with pytest.raises(RemoteError, match=message):
        opened(f"{server.url}/model.pt").tail(len(CONTENT) // 2)
    assert len(server.requests) == 3


def test_the_end_of_a_connection_takes_a_buffer():
    async def read_all() -> None:
        memory = memoryview(bytearray(2))
        rest = _Rest(memory)
        for byte in b"abc":
            rest.get_buffer(-1)[0] = byte
            rest.buffer_updated(1)
        await rest.wait(QUICK)
        assert (memory, rest.done) == (b"ab", 2)

    asyncio.run(read_all())


class Bad(NamedTuple):
    """A fault from the first request on, or from the second, and the error that it is.

    aiohttp may repeat requests itself where a connection ends without a word: up to ``most``.
    """

    fault: Callable[[Request, Answer], object]
    message: str
    is_later: bool = False
    requests: int = 1
    most: int = 1
    manners: Manners = QUICK


def answering(status: int, **headers: str) -> Callable[[Request, Answer], None]:
    """Answer nothing but this."""

    def fault(request: Request, answer: Answer) -> None:
        answer.status, answer.body = status, b""
        answer.headers = {"Content-Length": "0"}
        answer.headers |= {name.replace("_", "-"): value for name, value in headers.items()}

    return fault


def with_header(name: str, value: str | None) -> Callable[[Request, Answer], None]:
    def fault(request: Request, answer: Answer) -> None:
        answer.headers[name] = value or ""

    return fault


def all_of_it(request: Request, answer: Answer) -> None:
    no_ranges(request, answer)


def other_bytes(request: Request, answer: Answer) -> None:
    answer.headers["Content-Range"] = f"bytes 1-{len(answer.body)}/{len(CONTENT)}"


def longer(request: Request, answer: Answer) -> None:
    answer.body += b"more"
    answer.headers["Content-Length"] = str(len(answer.body))


def dead(request: Request, answer: Answer) -> None:
    answer.status = 0


def mute(request: Request, answer: Answer) -> None:
    answer.status, answer.silent = 0, True


def short(request: Request, answer: Answer) -> None:
    answer.body = b""
    answer.headers["Content-Length"] = "0"


IN_AGES = "Wed, 01 Jan 9000 00:00:00 GMT"
LONG_AGO = "Thu, 01 Jan 1970 00:00:00 GMT"
CHANGED = "the file is another one by now than when it was opened"
BAD = {
    "missing": Bad(answering(404), "the server answers 404 Not Found"),
    "forbidden": Bad(answering(403), "the server answers 403 Forbidden.*Credentials"),
    "unauthorized": Bad(answering(401), "the server answers 401 Unauthorized.*Credentials"),
    "broken": Bad(answering(500), "the server answers 500"),
    "busy": Bad(answering(503), "the server answers 503 Service Unavailable, 3 times",
                requests=3),
    "busy until then": Bad(answering(503, Retry_After=LONG_AGO), "503.*3 times", requests=3),
    "busy for long": Bad(answering(429, Retry_After="3600"), "asks to wait for 3,600 s"),
    "busy for ages": Bad(answering(503, Retry_After=IN_AGES),
                         r"asks to wait for 2\d\d(,\d{3}){3} s"),
    "busy for a while": Bad(answering(503, Retry_After="a while"), "3 times", requests=3),
    "dead": Bad(dead, "the connection breaks off, 3 times", requests=3, most=6),
    "silent": Bad(mute, "the server is silent for too long, 3 times", requests=3,
                  manners=IMPATIENT),
    "dripping": Bad(drips, "the server is silent for too long, 3 times", requests=0,
                    most=3, manners=replace(IMPATIENT, connect=0.3)),
    "short": Bad(short, "0 of 1,000 bytes came, 3 times", requests=3),
    "coded": Bad(with_header("Content-Encoding", "gzip"), "coded as gzip"),
    "no range": Bad(with_header("Content-Range", None), "without a Content-Range"),
    "odd range": Bad(with_header("Content-Range", "bytes 5-2/9"), "a part that cannot be"),
    "long range": Bad(with_header("Content-Range", f"bytes 0-{'9' * 6000}/*"),
                      "without a Content-Range that tells which: 'bytes 0-9{72}'"),
    "outside": Bad(with_header("Content-Range", "bytes 5-20/9"), "a part that cannot be"),
    "no address": Bad(answering(302), "redirects to no web address"),
    "other address": Bad(answering(302, Location="file:///etc/passwd"), "no web address"),
    "bad address": Bad(answering(302, Location="http://[::1/model.pt"), "no web address"),
    "bad port": Bad(answering(302, Location="http://a:99999/model.pt"), "no web address"),
    "endless": Bad(answering(301, Location="/model.pt"), "more than 3 redirects", requests=4),
    "longer": Bad(longer, "sends more bytes than it says"),
    "later missing": Bad(answering(404), "404", is_later=True),
    "later whole": Bad(all_of_it, "all of the file where a part was asked for", is_later=True),
    "later other bytes": Bad(other_bytes, "bytes 1-11 where 0-10 were asked for", is_later=True),
    "later outside": Bad(answering(416), CHANGED, is_later=True),
    "later other version": Bad(with_header("ETag", '"b"'), CHANGED, is_later=True),
    "later other size": Bad(with_header("Content-Range", "bytes 0-9/77"), CHANGED, is_later=True),
    "later coded": Bad(with_header("Content-Encoding", "deflate"), "coded as deflate",
                       is_later=True),
    "later longer": Bad(longer, "sends more bytes than it says", is_later=True),
    "later dead": Bad(dead, "the connection breaks off, 3 times", is_later=True, requests=3,
                      most=6),
}  # fmt: skip


def test_who_is_not_there_is_asked_once():
    with web_server({}) as server:
        pass
    with pytest.raises(RemoteError, match="no connection") as found:
        opened(f"{server.url}/model.pt").tail(COUNT)
    assert "times" not in found.value.message


@pytest.mark.parametrize(("code", "times"), [(socket.EAI_NONAME, 1), (socket.EAI_AGAIN, 3)])
def test_only_names_that_may_be_found_later_are_looked_up_again(monkeypatch, code, times):
    asked = []

    def unknown(host, *args, **options):
        asked.append(host)
        raise socket.gaierror(code, "not found")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(RemoteError, match="no connection: not found"):
        opened("http://models.invalid/model.pt").tail(COUNT)
    assert asked == ["models.invalid"] * times


@pytest.mark.whole
@pytest.mark.parametrize("name", BAD)
def test_errors(server, way, name):
    bad = BAD[name]
    ranges = opened(f"{server.url}/model.pt", manners=bad.manners)
    if bad.is_later:
        ranges.tail(COUNT)
        server.requests.clear()
    server.fault = bad.fault
    with pytest.raises(RemoteError, match=bad.message) as found:
        read(ranges, [(0, 10)]) if bad.is_later else ranges.tail(COUNT)
    server.await_requests(bad.requests)
    assert bad.requests <= len(server.requests) <= max(bad.requests, bad.most)
    assert found.value.message.startswith(f"{server.url}/model.pt: ")
