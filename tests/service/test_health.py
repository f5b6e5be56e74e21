"""The socket on which a service answers, and what systemd is told."""

import socket
from pathlib import Path
from typing import Any

import pytest

from meteragent.service.health import ask_socket, socket_path


def test_an_answer_that_comes_before_the_question_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd's operator answers each connection at once, perhaps before the other side asks anything."""
    store = tmp_path / "state.db"

    class Late(socket.socket):
        """A socket whose connection was answered, and closed, before `connect` returns."""

        def connect(self, address: Any) -> None:
            super().connect(address)
            accepted, _ = listening.accept()
            with accepted:
                accepted.sendall(b"all is well")

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(socket_path(store)))
        listening.listen()
        monkeypatch.setattr(socket, "socket", Late)
        assert ask_socket(socket_path(store)) == "all is well"
