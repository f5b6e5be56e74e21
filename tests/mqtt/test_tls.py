"""A connection that is not private is not made: before it is, nothing is said that an enemy may hear."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meteragent.domain.errors import LinkError
from tests.conftest import MakeCertificates
from tests.support.broker import Certificates
from tests.support.mqtt_peer import connected


@dataclass(frozen=True, slots=True)
class Enemy:
    """Who answers in the broker's place: where, and all that he has heard in the clear."""

    url: str
    heard: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def enemy(context: ssl.SSLContext | None, scheme: str = "mqtts") -> AsyncIterator[Enemy]:
    """A server on a free port; without a context it speaks no TLS."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.append(await reader.read(65_536))
        except OSError:
            heard.append(b"")
        finally:
            writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    async with server:
        yield Enemy(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard)


def serving(certificate: Path, key: Path) -> ssl.SSLContext:
    """The context of a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@pytest.fixture(scope="module")
def others(openssl: MakeCertificates, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates with the same names, of an authority that we do not know."""
    return openssl(tmp_path_factory.mktemp("others"))


@pytest.fixture(scope="module")
def expired(openssl: MakeCertificates, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority of ours whose server's certificate ran out yesterday."""
    return openssl(tmp_path_factory.mktemp("expired"), server_days=-1)


async def refusal(context: ssl.SSLContext | None, ca: Path, code: str) -> str:
    """Why a connection is not made; the name and password that were to be said on it are not heard.

    The failure has the `code` of the problem that names its cause.
    """
    secrets = {"ca_file": ca, "username": "canary-name", "password": "canary-password"}
    failures: list[LinkError] = []
    async with (
        enemy(context) as actual,
        connected(actual.url, credentials=secrets, on_failed=failures.append) as peer,
    ):
        reason = await peer.warned()
        assert peer.sessions.empty()
        assert failures[0].code == code
    assert not any(b"canary" in heard for heard in actual.heard)
    assert "canary" not in reason
    return reason


async def test_an_unknown_authority_is_refused(certificates: Certificates, others: Certificates) -> None:
    """The right names, vouched for by somebody else."""
    reason = await refusal(serving(others.server, others.server_key), certificates.ca, "certificate_unknown")
    assert "CERTIFICATE_VERIFY_FAILED" in reason


async def test_a_certificate_that_ran_out_is_refused(expired: Certificates) -> None:
    """Our own authority and the right name, a day too late."""
    context = serving(expired.server, expired.server_key)
    assert "certificate has expired" in await refusal(context, expired.ca, "certificate_wrong")


async def test_another_host_s_certificate_is_refused(certificates: Certificates) -> None:
    """Our own authority, and the name of another host."""
    reason = await refusal(
        serving(certificates.client, certificates.client_key), certificates.ca, "certificate_wrong"
    )
    assert "not valid for '127.0.0.1'" in reason


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_an_old_version_of_tls_is_refused(certificates: Certificates, version: ssl.TLSVersion) -> None:
    """A server that knows none newer than TLS 1.1, whatever its certificate; a lax client would take it."""
    context = serving(certificates.server, certificates.server_key)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    await refusal(context, certificates.ca, "port_without_tls")
    async with enemy(context) as actual:
        lax = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        lax.load_verify_locations(certificates.ca)
        lax.set_ciphers("ALL:@SECLEVEL=0")
        lax.minimum_version = version
        port = int(actual.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=lax)
        assert writer.get_extra_info("ssl_object").version() == {769: "TLSv1", 770: "TLSv1.1"}[version]
        writer.close()


async def test_a_server_without_tls_is_refused(certificates: Certificates) -> None:
    """With mqtts:// nothing goes out in the clear, not even to a broker that would take it."""
    failures: list[LinkError] = []
    credentials = {"ca_file": certificates.ca}
    async with (
        enemy(None) as actual,
        connected(actual.url, credentials=credentials, on_failed=failures.append) as peer,
    ):
        await peer.warned()
        assert peer.sessions.empty()
        assert failures[0].code == "port_without_tls"
    [hello] = actual.heard[:1]
    assert hello[0] == 22  # a TLS handshake, no CONNECT (16)
    assert b"MQTT" not in hello
