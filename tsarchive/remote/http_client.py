"""Requests for one file on a web server: redirects, time limits, and when to ask again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from tsarchive.errors import RemoteError
from tsarchive.remote.urls import Url

if TYPE_CHECKING:
    import aiohttp
    import yarl

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_GONE: Final = (401, 403, 404, 410)
_BUSY: Final = (429, 502, 503, 504)
_WEB: Final = ("http", "https")
_AS_IT_IS: Final = {"Accept-Encoding": "identity"}
_UNCODED: Final = ("", "identity")
# Of what users configure for requests, this says who they are.
_PERSONAL: Final = ("auth", "cookies", "headers")
# The default of aiohttp makes it stop and go on many times in each piece.
_BUFFER_BYTES: Final = 1 << 20
_CODED: Final = "Offsets in coded bytes are no offsets in the file: have it served as it is"
_TRUST: Final = "SSL_CERT_FILE names a file of certificates to trust"
_INSECURE: Final = "Give the URL that it redirects to, if that server is to be trusted"
_LATER: Final = "Try again later"
_ADDRESS: Final = "Check the address, and that its server runs"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Manners:
    """How long to wait for a server, how often to ask, and how much to take. Times in seconds."""

    connect: float = 10
    silence: float = 30
    slowest: int = 1 << 10  # bytes in a second, after so long as a silence may be
    attempts: int = 4
    first_pause: float = 0.5
    longest_pause: float = 30
    redirects: int = 10
    whole_bytes: int = 1 << 30


class Unfinished(Exception):
    """A request that may go better another time, ``pause`` seconds later if the server said so."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


class Pace:
    """How fast a body has to come, from now on."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._start = monotonic()

    def require(self, nbytes: int) -> None:
        """Raise Unfinished if so many bytes until now are too few."""
        slowest = self._manners.slowest
        if monotonic() - self._start > self._manners.silence + nbytes / slowest:
            raise Unfinished(f"the server sends less than {slowest:,} bytes in a second")


class Client:
    """Sends requests for one file in a session of fsspec, with what users configure for it.

    Redirects are followed without credentials to other servers, and never from HTTPS to HTTP.
    """

    def __init__(self, url: Url, filesystem: Any, manners: Manners) -> None:
        self.manners = manners
        self._url = url
        self._filesystem = filesystem
        self._start: yarl.URL = filesystem.encode_url(url.full)
        # Where redirects led to, until that place refuses.
        self._location = self._start

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the session."""
        found: asyncio.AbstractEventLoop = self._filesystem.loop
        return found

    async def patiently(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return what ``work`` returns, which is called again where it may go better then.

        Raises RemoteError when it never did.
        """
        failure = Unfinished("nothing was tried")
        for attempt in range(self.manners.attempts):
            if attempt:
                await asyncio.sleep(self._pause(attempt, failure))
            try:
                return await self._tried(work)
            except Unfinished as problem:
                failure = problem
        times = f"{self.manners.attempts} times"
        raise RemoteError(f"{self._url}: {failure}, {times}", hint=_LATER)

    @asynccontextmanager
    async def get(self, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the response to a request, at the end of all redirects.

        Raises Unfinished where the server is busy; RemoteError for redirects that are not followed
        and for bodies that are coded.
        """
        location = self._location
        for redirects in range(self.manners.redirects + 1):
            is_kept = not redirects and location != self._start
            async with self._send(location, headers) as response:
                if response.status not in _REDIRECTS:
                    self._check(response, location, is_kept=is_kept)
                    yield response
                    return
                location = self._target(response, location)
        self._fail(f"more than {self.manners.redirects} redirects follow each other")

    async def _tried(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return what ``work`` returns; failures of connections are ``Unfinished``."""
        import aiohttp

        try:
            return await work()
        except aiohttp.ClientConnectorCertificateError as error:
            self._fail(f"no secure connection: {error.certificate_error}", _TRUST)
        except aiohttp.ClientSSLError as error:
            said = self._url.hidden(str(error.os_error))
            self._fail(f"no secure connection: {said}", _TRUST)
        except asyncio.TimeoutError:
            raise Unfinished("the server is silent for too long") from None
        except aiohttp.ClientConnectorError as error:
            cause = error.os_error
            said = f"no connection: {cause.strerror or str(cause) or type(cause).__name__}"
            if _is_final(cause):
                self._fail(said, _ADDRESS)
            raise Unfinished(said) from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            raise Unfinished("the connection breaks off") from None
        except aiohttp.ClientError as error:
            self._fail(f"{type(error).__name__}: {self._url.hidden(str(error))}")

    @asynccontextmanager
    async def _send(
        self, location: yarl.URL, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request. Another server gets nothing that says who asks."""
        from aiohttp.helpers import ceil_timeout  # one for all versions of Python

        session = await self._filesystem.set_session()
        options = dict(self._filesystem.kwargs)
        async with AsyncExitStack() as stack:
            if location.origin() != self._start.origin():
                options = {key: options[key] for key in options.keys() - _PERSONAL}
                session = await stack.enter_async_context(_anonymous(session))
            is_ours = "timeout" not in {*self._filesystem.client_kwargs, *options}
            if is_ours:
                options["timeout"] = self._timeout()
            options["headers"] = {**options.get("headers", {}), **headers, **_AS_IT_IS}
            request = session.get(
                location,
                allow_redirects=False,
                raise_for_status=False,
                read_bufsize=_BUFFER_BYTES,
                **options,
            )
            longest = self.manners.connect + self.manners.silence if is_ours else None
            async with ceil_timeout(longest):
                response = await stack.enter_async_context(request)
            yield response

    def _timeout(self) -> aiohttp.ClientTimeout:
        import aiohttp

        connect, silence = self.manners.connect, self.manners.silence
        return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=silence)

    def _check(
        self, response: aiohttp.ClientResponse, location: yarl.URL, *, is_kept: bool
    ) -> None:
        """Note where a file was found; raise Unfinished where it may be found another time."""
        status = f"the server answers {response.status} {response.reason}"
        if response.status in _BUSY:
            raise Unfinished(status, _retry_after(response.headers.get("Retry-After")))
        if response.status in _GONE and is_kept:
            self._location = self._start
            raise Unfinished(status, 0)
        if response.ok:
            self._location = location
            coding = response.headers.get("Content-Encoding", "")
            if coding not in _UNCODED:
                self._fail(f"the server sends it coded as {coding}, though asked not to", _CODED)

    def _target(self, response: aiohttp.ClientResponse, location: yarl.URL) -> yarl.URL:
        """Return where a redirect leads to."""
        import yarl

        given = response.headers.get("Location", "")
        try:
            target = location.join(yarl.URL(given))
            is_address = bool(given) and target.scheme in _WEB and bool(target.origin())
        except ValueError:
            is_address = False
        if not is_address:
            self._fail("the server redirects to no web address")
        if (location.scheme, target.scheme) == ("https", "http"):
            self._fail("the server redirects from HTTPS to HTTP, which is not followed", _INSECURE)
        if target.origin() == self._start.origin() and target.user is None:
            target = target.with_user(self._start.user).with_password(self._start.password)
        return target

    def _pause(self, attempt: int, failure: Unfinished) -> float:
        """Return the seconds to wait before the next attempt."""
        longest = self.manners.longest_pause
        if failure.pause is None:
            return min(longest, self.manners.first_pause * 2.0 ** (attempt - 1))
        if failure.pause > longest:
            self._fail(f"{failure}, and asks to wait for {failure.pause:,.0f} s", _LATER)
        return failure.pause

    def _fail(self, message: str, hint: str | None = None) -> NoReturn:
        raise RemoteError(f"{self._url}: {message}", hint=hint)


def _anonymous(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """Return a session that shares connections with another, and none of what it says of users."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=session.connector,
        connector_owner=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=session.trust_env,
    )


def _is_final(cause: OSError) -> bool:
    """Return whether there is no such host, or no server there, which waiting does not change."""
    if isinstance(cause, socket.gaierror):
        return cause.errno != socket.EAI_AGAIN
    return isinstance(cause, ConnectionRefusedError)


def _retry_after(given: str | None) -> float | None:
    """Return the seconds that a server asks to wait, which it tells as such or as a date."""
    if given is None:
        return None
    if given.strip().isdecimal():
        return float(given)
    try:
        then = parsedate_to_datetime(given)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return max(0.0, (then - datetime.now(timezone.utc)).total_seconds())
