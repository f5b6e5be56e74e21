"""A real browser for the tests of the page: Debian's Chromium, driven by Playwright, without a screen."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright, expect

from tests.commands.system_parts import find
from tests.support.not_run import not_run

QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)


LIMIT_MS = 60_000
expect.set_options(timeout=LIMIT_MS)  # a busy machine takes its time


def chromium_program() -> Path | None:
    """Return the program that METERAGENT_CHROMIUM names, or the one on the path."""
    named = os.environ.get("METERAGENT_CHROMIUM")
    return Path(named) if named else find("chromium")


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator[Browser]:
    """Run a browser that contacts nobody by itself."""
    program = chromium_program()
    if program is None:
        not_run("chromium", "chromium is not on the path, nor in METERAGENT_CHROMIUM")
    async with async_playwright() as playwright:
        options = [*QUIET.split(), *arguments]
        browser = await playwright.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            await browser.close()
