"""The local page, which shows measured and sent values side by side to the people at the device.

An open page holds one stream of server-sent events, for one meter. Only while a page is open does the runner
pass on the meter's accepted readings, through a bounded queue (`Viewers`). The raw trace is kept only in the
browser and is gone when the page is closed. Spans become noiseless means of slots, which stay in memory for a
day after the last visit. Private records are passed on after they are committed.

Rules
1. Until a page is opened, a batch costs only the check whether there is a viewer, and no timer runs.
2. A raw value exists only in a viewer's queues, the kept means and the event being written, never in a log.
3. Every request passes `guard`.
4. The numbers of viewers and connections and the sizes of queues and bodies are bounded. The connection of a
   vanished browser is dropped within half a minute.

Only `serve` loads Starlette and uvicorn (the `page` extra).
"""

from meteragent.agent.page.view import Route, Settings, View
from meteragent.agent.viewers import Viewers
from meteragent.config.files import missing_page_refusal


async def serve(settings: Settings, view: View, viewers: Viewers, routes: tuple[Route, ...] = ()) -> None:
    """Serve the page until cancelled; only this machine may use `routes`.

    Raises ConfigError without the extra, or if `page.listen` is not an address of this machine; PageError if
    the server cannot listen, for example because the port is taken.
    """
    try:
        from meteragent.agent.page.server import run_server  # noqa: PLC0415  only a served page needs the server
    except ModuleNotFoundError as error:
        raise missing_page_refusal(error.name or "its server") from None
    await run_server(settings, view, viewers, routes)
