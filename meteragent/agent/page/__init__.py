"""The local page: what you have and what they get, side by side, for whoever sits at the device.

Theory of operation
-------------------
A browser that opens the page holds one stream of server-sent events, of one meter. While it does, and only
then, the runner passes that meter's accepted readings on to it (`Viewers`): they go into a bounded queue,
from there into the browser, and nowhere else. So the raw trace begins when the page is opened, is kept by the
browser alone, and is gone when the page is closed. Private records come along once they are committed. All
that is simulated, other presets and attackers, is simulated by the browser, with noise that is drawn for
show: nothing of it is stored, charged or sent.

Rules
1. Closed, the page costs one test of emptiness per batch, and no timer runs.
2. A raw value is in a viewer's queue or in the event being written, and never in a log or an error.
3. Only who uses a known name for this host may ask for anything, no page of another origin may, and beyond
   the loopback interface only with the token.
4. Viewers, connections, queues and bodies are bounded; who vanishes is dropped within half a minute.

`serve` is the only thing that loads Starlette and uvicorn (the extra ``page``).
"""

from meteragent.agent.page.view import Glance, Message, Promises, Route, Settings, StreamView, View
from meteragent.agent.page.viewers import Viewers
from meteragent.domain.errors import ConfigError

__all__ = [
    "Glance",
    "Message",
    "Promises",
    "Route",
    "Settings",
    "StreamView",
    "View",
    "Viewers",
    "serve",
]


async def serve(settings: Settings, view: View, viewers: Viewers, routes: tuple[Route, ...] = ()) -> None:
    """Serve the page until cancelled; `routes` are answered to this machine only, without a token.

    Raises:
        ConfigError: the extra is not installed, or `page.listen` is not an address of this machine.
        OSError: the port is taken.
    """
    try:
        from meteragent.agent.page.server import run  # noqa: PLC0415  nobody else pays for the server
    except ModuleNotFoundError as error:
        expected = "the extra that serves it: pip install 'meteragent[page]'"
        raise ConfigError("page", f"this table, but no {error.name}", expected) from None
    await run(settings, view, viewers, routes)
