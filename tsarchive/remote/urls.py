"""URLs of files elsewhere: told apart from paths, and named without what they give away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.\-]+"  # a single letter is a drive
_URL = re.compile(rf"(?:{_SCHEME}::)*{_SCHEME}://")
_IN_TEXT = re.compile(rf"(?<![A-Za-z0-9+.\-]){_SCHEME}://[^\s'\"<>]+")
# A password may hold what should have been escaped: where no port follows the colon, it goes on.
_PARTS = re.compile(
    rf"(?P<scheme>{_SCHEME})://(?:(?P<user>[^:/?#]*:(?!\d*(?:[/?#]|$)).*|[^/?#]*)@)?"
    r"(?P<place>[^?#]*)(?P<rest>.*)",
    re.DOTALL,
)
_LINKS = re.compile(rf"::(?={_SCHEME}(?:://|::))")
# Their servers take names of users as tokens.
_NAMELESS: Final = ("http", "https")
_FILE: Final = ("file://", "local://")
# Shorter values are words like any other, and take part in many.
_SHORTEST_SECRET: Final = 4


class Url(str):
    """A URL that reads, prints and compares as its name, which has no credentials.

    ``full`` is the URL as it was given: for requests, and for nothing else.
    """

    __slots__ = ("full",)

    full: str

    def __new__(cls, given: str) -> Url:
        if isinstance(given, Url):
            return given
        made = super().__new__(cls, shown(given))
        made.full = given
        return made

    def __str__(self) -> str:
        return self  # a plain str would have lost its place

    def __getnewargs__(self) -> tuple[str]:
        return (self.full,)

    def hidden(self, text: str) -> str:
        """Return a text without the credentials of this URL, and those of any URL in it."""
        text = _IN_TEXT.sub(lambda found: shown(found[0]), text.replace(self.full, self))
        for secret in _secrets(self.full):
            text = text.replace(secret, "***")
        return text


def place_of(given: str) -> str:
    """Return a URL as ``Url``, a ``file://`` URL as the path that it names, a path as it is."""
    if given.startswith(_FILE):
        from urllib.request import url2pathname

        return url2pathname(given.partition("://")[2].removeprefix("localhost"))
    return Url(given) if _URL.match(given) else given


def shown(url: str) -> str:
    """Return a URL without passwords, query and fragment, and for HTTP without a user.

    >>> shown("zip://net.pt::https://ann:secret@example.org/all.zip?sig=1")
    'zip://net.pt::https://example.org/all.zip'
    """
    return "::".join(map(_shown_link, _LINKS.split(url)))


def _shown_link(link: str) -> str:
    parts = _PARTS.fullmatch(link)
    if parts is None:
        return link
    user = (parts["user"] or "").partition(":")[0]
    is_shown = user and parts["scheme"].lower() not in _NAMELESS
    return f"{parts['scheme']}://{f'{user}@' if is_shown else ''}{parts['place']}"


def _secrets(url: str) -> Iterator[str]:
    """Yield what the name of a URL leaves out, as it stands in the URL and decoded."""
    from urllib.parse import unquote

    for parts in filter(None, map(_PARTS.fullmatch, _LINKS.split(url))):
        values = (pair.partition("=")[2] for pair in re.split(r"[?&#]", parts["rest"]))
        for secret in ((parts["user"] or "").partition(":")[2], *values):
            if len(secret) >= _SHORTEST_SECRET:
                yield secret
                yield unquote(secret)
