"""The folders of a world's store: what each process leaves to the next, and what befalls it between them."""

from collections.abc import Callable
from pathlib import Path

from meteragent.domain.errors import StoreLost, StoreRestored
from meteragent.store import Store, generation, restored_at
from simulators.simtest import disk
from simulators.simtest.expected_store import ExpectedStore
from simulators.simtest.power import Files

_OURS = "simtest"
"""How a store's client id begins once the world has named it."""


class StoreVersions:
    """Where the store is. `keeps`: copies are made at each start, so that one can come back.

    `befell` counts what has befallen the store.
    """

    def __init__(self, root: Path, *, keeps: bool) -> None:
        self.folder = disk.put({}, root / "0")
        self.befell: list[str] = []
        self._root = root
        self._keeps = keeps
        self._starts = 0
        self._old: list[tuple[Files, ExpectedStore]] = []
        self._copy: ExpectedStore | None = None
        self._other = False

    def leave(self, files: Files, what: str) -> None:
        """The next process finds these files; or a damaged one, or a copy from before the last start."""
        if what == "damaged" and "db" in files:
            self.befell.append("store damaged")
            self._copy = None
            files = {"db": b"no database at all", "db.gen": files.get("db.gen", b"lost")}
        elif what == "restored" and len(self._old) > 1 and "db.gen" in files:
            self.befell.append("store restored")
            old, self._copy = self._old[-2]
            files = old | {"db.gen": files["db.gen"]}
        self._starts += 1
        self.folder = disk.put(files, self._root / str(self._starts))

    def open(self, open_store: Callable[[], Store], now_ms: int, safe_ms: int) -> Store:
        """The store; where the agent refuses it, its operator says until when it may have released."""
        try:
            return open_store()
        except (StoreRestored, StoreLost):
            self.befell.append("ledger --restored-at")
            restored_at(self.folder / "db", at_ms=max(now_ms, safe_ms), now_ms=now_ms, again_s=0)
            self._other = True
            return open_store()

    def other(self, store: Store) -> ExpectedStore | None:
        """What a store holds that is a new one, or a copy that was taken in; None: it is the one that was."""
        new, taken_in, self._other = not store.client_id.startswith(_OURS), self._other, False
        brought_back, self._copy = self._copy, None  # till here: a crash at the start may come between
        if not new and not taken_in:
            return None
        expected = brought_back.copy() if brought_back else ExpectedStore()
        expected.floor_ms, expected.states = store.floor_ms, {}
        expected.marks = {key: max(end_ms, store.floor_ms) for key, end_ms in expected.marks.items()}
        return expected

    def name(self, store: Store, secret: bytes) -> None:
        """Put what a new store draws once under the seed."""
        if not store.client_id.startswith(_OURS):
            with store.transaction() as tx:
                values = [(f"{_OURS}{self._starts}", "client_id"), (secret, "secret")]
                tx.executemany("UPDATE meta SET value = ? WHERE key = ?", values)
        known = store._generation  # noqa: SLF001 - what is drawn is no argument
        if known is not None and known.claim_key != secret.hex():
            store._generation = known._replace(claim_key=secret.hex())  # noqa: SLF001
            generation.write(store.path, store._generation)  # noqa: SLF001

    def copy(self, expected: ExpectedStore) -> None:
        """Keep a copy of the store as it is now."""
        if self._keeps:
            self._old.append((disk.look(self.folder), expected.copy()))
