"""What web servers are told and trusted with: redirects, credentials, certificates."""

from __future__ import annotations

import ssl
import traceback
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address

import pytest

from tests.remote.test_http import CONTENT, COUNT, RIGHT, answering, opened, read
from tests.support.web_server import Answer, Request, web_server
from tsarchive.errors import RemoteError
from tsarchive.remote.ranges import Tail
from tsarchive.remote.urls import Url

# What users configure for requests, always with the same secret in it.
CREDENTIALS = [
    {"headers": {"Authorization": "Bearer abcd", "X-Key": "abcd"}},
    {"cookies": {"session": "abcd"}},
    {"client_kwargs": {"headers": {"Authorization": "Bearer abcd", "X-Key": "abcd"}}},
    {"client_kwargs": {"cookies": {"session": "abcd"}}},
]
FOUND = Tail(len(CONTENT), CONTENT[-COUNT:])


@pytest.fixture
def servers():
    """A server that redirects everything to another, which has the file."""
    with web_server({"/real.pt": CONTENT}) as second, web_server({}) as first:
        first.fault = answering(302, Location=f"{second.url}/real.pt?sig=signature")
        yield first, second


def test_redirects_are_followed_once(servers):
    first, second = servers
    ranges = opened(f"{first.url}/model.pt")
    assert ranges.tail(COUNT) == FOUND
    assert read(ranges) == RIGHT
    assert len(first.requests) == 1
    assert len(second.requests) == 1 + len(RIGHT)


def test_where_a_redirect_led_to_may_be_closed(servers):
    first, second = servers
    ranges = opened(f"{first.url}/model.pt")
    ranges.tail(COUNT)
    second.fault = lambda request, answer: (
        answering(403)(request, answer) if ("again" not in request.path) else None
    )
    first.fault = answering(302, Location=f"{second.url}/real.pt?sig=again")
    assert read(ranges) == RIGHT


def test_what_is_refused_at_once_is_not_asked_again(servers):
    first, second = servers
    second.fault = answering(403)
    with pytest.raises(RemoteError, match="403"):
        opened(f"{first.url}/model.pt").tail(COUNT)
    assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("options", CREDENTIALS)
def test_credentials_go_to_the_server_that_was_named(servers, options):
    first, second = servers
    ranges = opened(f"{first.url}/model.pt", **options)
    assert ranges.tail(COUNT) == FOUND
    assert read(ranges) == RIGHT
    assert any("abcd" in value for value in first.requests[0].headers.values())
    for request in second.requests:
        assert not any("abcd" in value for value in request.headers.values())


def test_credentials_of_the_url_go_to_its_server_only(servers):
    first, second = servers
    start = first.url.replace("//", "//ann:secret@")
    assert opened(f"{start}/model.pt").tail(COUNT) == FOUND
    assert first.requests[0].headers["Authorization"].startswith("Basic ")
    assert second.requests[0].headers["Authorization"] is None


def test_a_redirect_within_a_server_keeps_credentials(servers):
    _, second = servers

    def moved(request: Request, answer: Answer) -> None:
        assert request.headers["Authorization"].startswith("Basic ")
        if request.path != "/real.pt":
            answering(307, Location=f"{second.url}/real.pt")(request, answer)

    second.fault = moved
    start = second.url.replace("//", "//ann:secret@")
    assert opened(f"{start}/model.pt").tail(COUNT) == FOUND


# Tracebacks show these lines, too, so no URL of a test has a secret in its text.
SECRETS = PASSWORD, SIGNATURE, TOKEN = "hunter22", "5ecre7", "70ken5"


@pytest.mark.whole
@pytest.mark.parametrize("status", [401, 404, 503, 302, 416, 0])
def test_errors_tell_no_secrets(status):
    with web_server({"/model.pt": CONTENT}) as server:
        server.fault = (
            answering(status, Location=f"/model.pt?sig={TOKEN}")
            if status
            else (lambda request, answer: setattr(answer, "status", 0))
        )
        start = server.url.replace("//", f"//ann:{PASSWORD}@")
        with pytest.raises(RemoteError) as found:
            opened(f"{start}/model.pt?X-Amz-Signature={SIGNATURE}&token={TOKEN}").tail(COUNT)
    assert_no_secrets(found.value)
    assert f"{server.url}/model.pt" in str(found.value)


def test_no_connection_tells_no_secrets():
    with web_server({}) as server:
        pass
    start = server.url.replace("//", f"//ann:{PASSWORD}@")
    with pytest.raises(RemoteError, match="no connection") as found:
        opened(f"{start}/model.pt?sig={SIGNATURE}#{TOKEN}").tail(COUNT)
    assert_no_secrets(found.value)


def assert_no_secrets(error: BaseException) -> None:
    assert (error.__cause__, error.__context__) == (None, None)
    text = "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))
    assert not [secret for secret in SECRETS if secret in text]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate that 127.0.0.1 has given itself, and its key, in one file."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography makes the certificate")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "loopback.pem"
    path.write_bytes(private + made.public_bytes(encoding))
    return path


@pytest.fixture
def secure(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with web_server({"/model.pt": CONTENT}, context) as server:
        yield server


def test_certificates_are_checked(secure):
    with pytest.raises(RemoteError, match=r"no secure connection.*SSL_CERT_FILE") as found:
        opened(f"{secure.url}/model.pt?sig={SIGNATURE}").tail(COUNT)
    assert_no_secrets(found.value)
    assert not secure.requests


@pytest.mark.parametrize("long", [1, 1 << 40])
def test_trusted_certificates(secure, certificate, monkeypatch, long):
    monkeypatch.setattr("tsarchive.remote.http_bodies._LONG", long)
    trusted = ssl.create_default_context(cafile=certificate)
    ranges = opened(f"{secure.url}/model.pt", ssl=trusted)
    assert ranges.tail(COUNT) == FOUND
    assert read(ranges) == RIGHT


def test_https_does_not_lead_to_http(secure, certificate):
    trusted = ssl.create_default_context(cafile=certificate)
    with web_server({"/model.pt": CONTENT}) as plain:
        secure.fault = answering(302, Location=f"{plain.url}/model.pt")
        with pytest.raises(RemoteError, match="from HTTPS to HTTP"):
            opened(f"{secure.url}/model.pt", ssl=trusted).tail(COUNT)
        assert not plain.requests


def test_plain_http_where_https_is_asked_for():
    with web_server({"/model.pt": CONTENT}) as plain:
        url = plain.url.replace("http:", "https:")
        with pytest.raises(RemoteError, match="no secure connection"):
            opened(f"{url}/model.pt").tail(COUNT)


def test_names_have_no_credentials():
    assert opened(f"https://ann:{PASSWORD}@example.org/model.pt?sig={SIGNATURE}").name == Url(
        "https://example.org/model.pt"
    )
