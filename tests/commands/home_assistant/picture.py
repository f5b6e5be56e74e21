"""A picture of a private stream's device in a real Home Assistant: deploy/homeassistant/device.png.

    python -m tests.commands.home_assistant.picture FILE

The stream has slots of 30 s and hides 2 Wh, so the picture takes less than two minutes. It needs Chromium.
The frontend of version 2024.11.0 shows its pages although not every default integration is installed.
"""

import asyncio
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.commands.home_assistant.checks import PAGE_URL, POWER, STREAMS, TOTAL, metered, number, until_state
from tests.commands.home_assistant.installation import Installation
from tests.commands.home_assistant.server import HomeAssistant
from tests.commands.waiting import wait_until
from tests.integration.browser import chromium
from tests.integration.service import service
from tests.support.broker import Broker, free_port, mosquitto_program

EXACT: Final = "{{ level = 1000, radius = 10 }}"
"""What the checks have in place of a promise, so that they can compare numbers."""
SAVED_S: Final = 30.0
STEPS: Final = ["user", "core_config", "analytics", "integration"]


async def picture(broker: Broker, server: HomeAssistant, folder: Path, target: Path) -> None:
    """Log in as a person does, open the page of the device, and save what is seen."""
    _set_up(server, broker, folder)
    power = STREAMS.replace(EXACT, "{{ hide = '2Wh' }}").format(url=broker.url, page=0, page_url=PAGE_URL)
    power = power.partition('[[stream]]\nname = "energy"')[0]
    page = f"[page]\nlisten = '127.0.0.1:{free_port()}'\nurl = '{PAGE_URL}'\n"
    with service(folder / "agent", power + page) as agent:
        agent.start()
        async with metered(broker), server.socket() as socket:
            await until_state(
                socket,
                lambda states: all(math.isfinite(number(states.get(name))) for name in (POWER, TOTAL)),
                "numbers",
            )
            devices = await socket.ask("config/device_registry/list")
            (device,) = (device["id"] for device in devices if device["name"] == "flat")
            async with chromium() as browser:
                view = await browser.new_page(viewport={"width": 1000, "height": 660})
                await view.goto(f"{server.address}/config/devices/device/{device}")
                for field in ("username", "password"):
                    await view.locator(f"input[name={field}]").fill("owner")
                await view.keyboard.press("Enter")
                await view.get_by_text("Private power").first.wait_for()
                await view.wait_for_load_state("networkidle")
                await view.screenshot(path=target)


def _set_up(server: HomeAssistant, broker: Broker, folder: Path) -> None:
    """Set up Home Assistant, and mark its questions to a new owner as answered."""
    server.onboard()
    server.add_broker(broker.port)
    storage = folder / "server" / "config" / ".storage"
    path = storage / "onboarding"
    for name, part in (("core.config_entries", '"mqtt"'), ("auth", '"access_token_expiration"')):
        file = storage / name
        assert wait_until(lambda: file.exists() and part in file.read_text(), SAVED_S), name  # noqa: B023
    server.kill()
    document = json.loads(path.read_text())
    document["data"]["done"] = STEPS
    path.write_text(json.dumps(document))
    server.start()


def main(target: Path) -> None:
    """Make the picture."""
    program = mosquitto_program()
    assert program is not None, "mosquitto is missing"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("broker", "server"):
            (folder / part).mkdir()
        installation = Installation.make("trixie", "2024.11.0")
        with (
            Broker(program, folder / "broker") as broker,
            HomeAssistant(installation, folder / "server") as server,
        ):
            asyncio.run(picture(broker, server, folder, target))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
