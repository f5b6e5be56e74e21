"""A real nats-server with JetStream and its MQTT gateway on loopback ports, which tests start and kill.

Its users and streams are those of deploy/collect.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.commands.system_parts import find
from tests.support.broker import READY_S, Certificates, Server, free_port
from tests.support.not_run import ROOT

FOLDER = ROOT / "deploy" / "collect"

_TLS = """
tls {{ cert_file: "{certificate}", key_file: "{key}" }}
"""
_CONFIGURATION = """
server_name: "test"
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/data" }}
mqtt {{ listen: "127.0.0.1:{mqtt_port}" }}
"""


def nats_program() -> Path | None:
    """Return the path in METERAGENT_NATS, or else a nats-server found on the path or in /usr/sbin."""
    override = os.environ.get("METERAGENT_NATS")
    return Path(override) if override else find("nats-server")


class Nats(Server):
    """A nats-server and its folder; `url` is its own protocol's, `mqtt_url` that of the gateway.

    With certificates, its own protocol needs TLS.
    """

    def __init__(self, program: Path, folder: Path, certificates: Certificates | None = None) -> None:
        super().__init__(folder, [str(program), "-c", str(folder / "nats.conf")])
        mqtt_port = free_port()
        self.url, self.mqtt_url = (
            f"nats://127.0.0.1:{self.port}",
            f"mqtt://agents:password@127.0.0.1:{mqtt_port}",
        )
        text = _CONFIGURATION.format(port=self.port, mqtt_port=mqtt_port, folder=folder)
        if certificates is not None:
            text += _TLS.format(certificate=certificates.server, key=certificates.server_key)
        (folder / "nats.conf").write_text(text + users())

    def make_streams(self) -> None:
        """Create streams with the script that is shipped."""
        code = (FOLDER / "nats_streams.py").read_text("utf-8")
        code = code.replace("127.0.0.1:4222", f"127.0.0.1:{self.port}")
        subprocess.run([sys.executable, "-c", code], check=True, timeout=READY_S)


def users() -> str:
    """Return the users that are shipped, as text of the server's configuration."""
    return (FOLDER / "nats-users.conf").read_text("utf-8")
