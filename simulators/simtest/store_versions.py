"""The folders of a world's store: what each process leaves, and what happens to it before the next."""

from collections.abc import Callable
from pathlib import Path

from meteragent.domain.errors import StoreLost, StoreRestored
from meteragent.store import Store, generation, restored_at
from simulators.simtest import disk
from simulators.simtest.expected_store import ExpectedStore
from simulators.simtest.power import Files

_OURS = "simtest"
"""Beginning of a store's client id once the world has named it."""


class StoreVersions:
    """The store's place. With `keeps` each start makes a copy, so that one can be put back.

    `damages` lists what has happened to the store, for the counts.
    """

    def __init__(self, root: Path, *, keeps: bool) -> None:
        self.folder = disk.put({}, root / "0")
        self.damages: list[str] = []
        self._root = root
        self._makes_copies = keeps
        self._starts = 0
        self._copies: list[tuple[Files, ExpectedStore]] = []
        self._copy: ExpectedStore | None = None
        self._restored = False

    def leave(self, files: Files, damage: str) -> None:
        """Leave files to the next process: these, a damaged one, or a copy from before the last start."""
        if damage == "damaged" and "db" in files:
            self.damages.append("store damaged")
            self._copy = None
            files = {"db": b"no database at all", "db.gen": files.get("db.gen", b"lost")}
        elif damage == "restored" and len(self._copies) > 1 and "db.gen" in files:
            self.damages.append("store restored")
            files_then, self._copy = self._copies[-2]
            files = files_then | {"db.gen": files["db.gen"]}
        self._starts += 1
        self.folder = disk.put(files, self._root / str(self._starts))

    def open(self, open_store: Callable[[], Store], now_ms: int, safe_ms: int) -> Store:
        """Open the store; where the agent refuses it, restore it as its operator would, as of `safe_ms`."""
        try:
            return open_store()
        except (StoreRestored, StoreLost):
            self.damages.append("ledger --restored-at")
            restored_at(self.folder / "db", at_ms=max(now_ms, safe_ms), now_ms=now_ms, again_s=0)
            self._restored = True
            return open_store()

    def replaced_by(self, store: Store) -> ExpectedStore | None:
        """Return the expected contents of a store that is new, or a copy put back; None for the old one."""
        new, restored, self._restored = not store.client_id.startswith(_OURS), self._restored, False
        brought_back, self._copy = self._copy, None  # only now: a crash during the start must keep it
        if not new and not restored:
            return None
        expected = brought_back.copy() if brought_back else ExpectedStore()
        expected.floor_ms, expected.states = store.floor_ms, {}
        expected.marks = {key: max(end_ms, store.floor_ms) for key, end_ms in expected.marks.items()}
        return expected

    def name(self, store: Store, secret: bytes) -> None:
        """Set what a new store draws once (client id, secret) to values that follow from the seed."""
        if not store.client_id.startswith(_OURS):
            with store.transaction() as tx:
                values = [(f"{_OURS}{self._starts}", "client_id"), (secret, "secret")]
                tx.executemany("UPDATE meta SET value = ? WHERE key = ?", values)
        present = store._generation  # noqa: SLF001 - what is drawn is no argument
        if present is not None and present.claim_key != secret.hex():
            store._generation = present._replace(claim_key=secret.hex())  # noqa: SLF001
            generation.write(store.path, store._generation)  # noqa: SLF001

    def copy(self, expected: ExpectedStore) -> None:
        """Keep a copy of the present store, with its expected contents."""
        if self._makes_copies:
            self._copies.append((disk.read_files(self.folder), expected.copy()))
