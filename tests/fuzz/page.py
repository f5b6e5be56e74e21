"""The page asked by who has no token: no answer of the server's own failure, and nothing that is measured."""

from meteragent.agent.page import view as page
from meteragent.agent.page.app import build_application
from tests.support.page_asker import ask
from tests.support.page_world import TOKEN, PageWorld

OPEN = {"/", "/login", "/static/page.css"}


async def asked(data: bytes) -> str:
    """Lines: method and path, then headers as ``name: value``, an empty line, and the body."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, path = first.decode("latin-1").partition(" ")
    pairs = [line.partition(b":") for line in lines]
    headers = {
        name.decode("latin-1").strip().lower(): value.decode("latin-1").strip()
        for name, colon, value in pairs
        if colon and name.isascii()
    }
    world = PageWorld()
    settings = page.Settings(host="0.0.0.0", token=TOKEN, hosts=frozenset({"gateway.local"}))
    app = build_application(settings, world.view, world.viewers, [])
    headers = {"host": "gateway.local"} | {n: v.encode("utf-8").decode() for n, v in headers.items()}
    answer = await ask(app, "/" + path.lstrip("/"), method=method or "GET", headers=headers, body=body)
    assert answer.status < 500
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    if answer.status == 200:
        assert "/" + path.lstrip("/") in OPEN
    if TOKEN not in body:
        assert "set-cookie" not in answer.headers
    assert not world.glances
    return str(answer.status)
