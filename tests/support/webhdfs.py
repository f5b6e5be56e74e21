"""A double of the REST interface of HDFS (WebHDFS) over a folder, for Hadoop's own client.

It answers as the documentation of WebHDFS says, and redirects to a data node, the same server, for contents.
Names are decoded once; nothing in them is a pattern. No answer states its type: the client that comes with
pyspark lacks the classes (of Jersey) that read one.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

PREFIX = "/webhdfs/v1"


def status(path: Path, name: str) -> dict[str, Any]:
    """Return what WebHDFS says of a file or a folder."""
    stat, is_folder = path.stat(), path.is_dir()
    return {
        "pathSuffix": name,
        "type": "DIRECTORY" if is_folder else "FILE",
        "length": 0 if is_folder else stat.st_size,
        "modificationTime": stat.st_mtime_ns // 1_000_000,
        "accessTime": 0,
        "blockSize": 0 if is_folder else 1 << 27,
        "replication": 0 if is_folder else 1,
        "owner": "x",
        "group": "x",
        "permission": "755",
        "childrenNum": 0,
        "fileId": stat.st_ino,
        "storagePolicy": 0,
    }


class Handler(BaseHTTPRequestHandler):
    """A request to the folder `root` of the server."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name that is overridden
        """Log nothing."""

    def handle_one(self) -> None:
        """Do the operation that the address names."""
        parts = urlsplit(self.path.encode("latin-1").decode())  # Java sends UTF-8 as it is
        query = {name.lower(): values[0] for name, values in parse_qs(parts.query).items()}
        name = unquote(parts.path).removeprefix(PREFIX)
        operation, body = query["op"].upper(), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.operations.append(operation)
        path = Path(f"{self.server.root}{name}")
        act = getattr(self, f"do_{operation.lower()}", None)
        if act is None:
            self.refuse(400, "UnsupportedOperationException", operation)
        elif operation not in {"MKDIRS", "CREATE", "DELETE", "RENAME"} and not path.exists():
            self.refuse(404, "FileNotFoundException", name)
        else:
            act(path, query, body)

    do_GET = do_PUT = do_POST = do_DELETE = handle_one  # noqa: N815 -- the names that HTTPServer looks for

    @property
    def quoted_path(self) -> str:
        """The address that was asked for, in ASCII."""
        return quote(self.path.encode("latin-1"), safe="/?&=%+~.-_:*,")

    def answer(self, facts: Any, code: int = 200) -> None:
        """Send JSON."""
        self.send(json.dumps(facts).encode(), code)

    def refuse(self, code: int, kind: str, text: str) -> None:
        """Send an exception as Hadoop does."""
        names = {"exception": kind, "javaClassName": f"java.io.{kind}", "message": text}
        self.answer({"RemoteException": names}, code)

    def send(
        self, content: bytes, code: int, kind: str = "application/octet-stream", place: str = ""
    ) -> None:
        """Send an answer, at `place` if it is a redirection."""
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        if place:
            self.send_header("Location", place)
        self.end_headers()
        self.wfile.write(content)

    def redirected(self, query: dict[str, str]) -> bool:
        """Send the client to the data node, unless it is there already."""
        if "datanode" in query:
            return False
        host, port = self.server.server_address[:2]
        self.send(b"", 307, place=f"http://{host!s}:{port}{self.quoted_path}&datanode=true")
        return True

    def do_getfilestatus(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        """Describe a file."""
        self.answer({"FileStatus": status(path, "")})

    def do_liststatus(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        """List a folder, in no particular order."""
        entries = sorted(path.iterdir(), reverse=True) if path.is_dir() else []
        statuses = [status(entry, entry.name) for entry in entries] or (
            [] if path.is_dir() else [status(path, "")]
        )
        self.answer({"FileStatuses": {"FileStatus": statuses}})

    def do_getfileblocklocations(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        """Say where the blocks of a file are."""
        block = {"cachedHosts": [], "corrupt": False, "hosts": ["localhost"], "length": path.stat().st_size}
        block |= {"names": ["localhost:1"], "offset": 0, "storageTypes": ["DISK"], "topologyPaths": ["/r/l"]}
        self.answer({"BlockLocations": {"BlockLocation": [block]}})

    def do_open(self, path: Path, query: dict[str, str], _body: bytes) -> None:
        """Send a part of a file."""
        if not self.redirected(query):
            offset = int(query.get("offset", 0))
            content = path.read_bytes()[offset:]
            self.send(content[: int(query["length"])] if "length" in query else content, 200)

    def do_create(self, path: Path, query: dict[str, str], body: bytes) -> None:
        """Write a file."""
        if not self.redirected(query):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.chunks() if self.headers.get("Transfer-Encoding") == "chunked" else body)
            self.send(b"", 201, place=f"webhdfs://x{quote(str(path))}")

    def chunks(self) -> bytes:
        """Read a body of unknown length."""
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def do_mkdirs(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        """Create a folder."""
        path.mkdir(parents=True, exist_ok=True)
        self.answer({"boolean": True})

    def do_delete(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        """Delete a file."""
        exists = path.exists()
        path.unlink(missing_ok=True)
        self.answer({"boolean": exists})

    def do_rename(self, path: Path, query: dict[str, str], _body: bytes) -> None:
        """Rename a file, unless the new name is taken."""
        target = Path(f"{self.server.root}{query['destination']}")
        if can := path.exists() and not target.exists():
            path.rename(target)
        self.answer({"boolean": can})


class Server(ThreadingHTTPServer):
    """The double: the folder that it serves, and the operations that were asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.operations = root, list[str]()

    @property
    def address(self) -> str:
        """The address of its root for Hadoop."""
        return f"webhdfs://127.0.0.1:{self.server_address[1]}"


@contextmanager
def webhdfs(root: Path) -> Iterator[Server]:
    """Serve a folder."""
    with Server(root) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
