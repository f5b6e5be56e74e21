"""A running Home Assistant, and its interfaces: REST for the first steps, WebSocket for the rest."""

import json
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.error import HTTPError
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect

from tests.brokers.makes import Enclosed
from tests.brokers.root import INSIDE
from tests.commands.home_assistant.installation import Installation

READY_S: Final = 300.0
"""The time that a start may take; the first one compiles the modules."""
ANSWER_S: Final = 30.0

_CONFIGURATION = """
homeassistant:
  name: Home
  time_zone: UTC
  country: NL
  unit_system: metric
http:
  server_host: 127.0.0.1
  server_port: {port}
recorder:
  commit_interval: 0
api:
config:
history:
energy:
diagnostics:
frontend:
logger:
  default: warning
"""


class HomeAssistant(Enclosed):
    """A Home Assistant on a loopback port, with its settings and its database in a folder."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        words = (installation.program("hass"), "--config", f"{INSIDE}/config", "--skip-pip")
        super().__init__(folder, installation.root.command(folder, *words), ready_s=READY_S)
        self.token = ""
        (folder / "config").mkdir()
        (folder / "config" / "configuration.yaml").write_text(_CONFIGURATION.format(port=self.port))

    @property
    def address(self) -> str:
        """The address of its web page."""
        return f"http://127.0.0.1:{self.port}"

    def onboard(self) -> None:
        """Create the owner, as the first visitor does, log in, and wait until everything has started."""
        self._until("/api/onboarding", lambda answer: isinstance(answer, list))
        person = {"name": "Owner", "username": "owner", "password": "owner", "language": "en"}
        client = {"client_id": f"{self.address}/"}
        code = self.post("/api/onboarding/users", person | client)["auth_code"]
        form = urlencode(client | {"grant_type": "authorization_code", "code": code}).encode()
        self.token = self._send("/auth/token", form, "application/x-www-form-urlencoded")["access_token"]
        self._until("/api/config", lambda answer: answer["state"] == "RUNNING")

    def add_broker(self, port: int) -> None:
        """Set up the MQTT integration by its dialogue."""
        flows = "/api/config/config_entries/flow"
        flow = self.post(flows, {"handler": "mqtt", "show_advanced_options": False})
        answers: dict[str, Any] = {"broker": "127.0.0.1", "port": port}
        if any(field["name"] == "other_settings" for field in flow["data_schema"]):  # newer versions have it
            answers["other_settings"] = {"set_ca_cert": "off", "set_client_cert": False, "transport": "tcp"}
        result = self.post(f"{flows}/{flow['flow_id']}", answers)
        if result["type"] != "create_entry":
            raise AssertionError(f"the MQTT integration was not set up: {result}")

    def _until(self, path: str, holds: Callable[[Any], bool]) -> None:
        """Wait for an answer; a path that is not served yet has none."""
        give_up_s = time.monotonic() + READY_S
        while time.monotonic() < give_up_s:
            with suppress(AssertionError):
                if holds(self._send(path)):
                    return
            time.sleep(0.2)
        raise AssertionError(f"{path}: not ready within {READY_S:.0f} s")

    def post(self, path: str, document: Mapping[str, Any]) -> Any:
        """Send JSON and return the answer."""
        return self._send(path, json.dumps(document).encode(), "application/json")

    def _send(self, path: str, data: bytes | None = None, kind: str = "") -> Any:
        """Send data, or ask without any, and return the answer. Raises AssertionError if it is refused."""
        headers = {"Content-Type": kind}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.address + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.loads(answer.read())
        except HTTPError as error:
            raise AssertionError(f"{path}: {error}: {error.read()[:1000]!r}") from None

    @asynccontextmanager
    async def socket(self) -> AsyncIterator["Socket"]:
        """Return a connection that has logged in."""
        async with connect(f"ws://127.0.0.1:{self.port}/api/websocket", max_size=None) as connection:
            yield await Socket(connection).log_in(self.token)


class Socket:
    """A connection to the WebSocket interface."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.version = ""

    async def log_in(self, token: str) -> Self:
        """Log in."""
        self.version = json.loads(await self._connection.recv())["ha_version"]
        await self._connection.send(json.dumps({"type": "auth", "access_token": token}))
        answer = json.loads(await self._connection.recv())
        if answer["type"] != "auth_ok":
            raise AssertionError(answer)
        return self

    async def ask(self, kind: str, **fields: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        await self._connection.send(json.dumps({"id": self._number, "type": kind, **fields}))
        while (answer := json.loads(await self._connection.recv())).get("id") != self._number:
            pass
        if not answer["success"]:
            raise AssertionError(f"{kind}: {answer['error']}")
        return answer["result"]
