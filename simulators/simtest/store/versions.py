"""The folders of a world's store: what a process leaves, and what changes before the next start."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from meteragent.domain.errors import StoreLost, StoreRestored
from meteragent.store import Store, generation, restore_at
from simulators.simtest.judge.expected_store import ExpectedStore
from simulators.simtest.store import disk
from simulators.simtest.store.power import Files

_OURS = "simtest"
"""The prefix of a store's client id once the world has set it."""


class StoreVersions:
    """The folder of the store. With `keeps`, each start makes a copy that can be restored later.

    `damages` lists the store's damage and restorations, for the counts. `is_unknown` says that no process has
    opened the store since its last damage or restoration.
    """

    def __init__(self, root: Path, *, keeps: bool) -> None:
        self.folder = disk.write_files({}, root / "0")
        self.damages: list[str] = []
        self._root = root
        self._makes_copies = keeps
        self._starts = 0
        self._copies: list[tuple[Files, ExpectedStore]] = []
        self._copy: ExpectedStore | None = None
        self._restored = False
        self.is_flipped = self.is_unknown = False

    def leave(self, files: Files, damage: str, part: int = 0) -> None:
        """Leave files for the next process: `files`, damaged files, or an earlier copy, as `damage` says.

        With an earlier copy, the current generation file stays. A bit flips in the database file, at a place
        that `part` decides. If there is nothing to damage or no earlier copy, `files` are left unchanged.
        """
        self.is_unknown |= bool(damage)
        flips = damage == "flipped" and "db" in files
        self.is_flipped = flips or (self.is_flipped and not damage)  # a process may die before `hold_damaged`
        if damage == "damaged" and "db" in files:
            self.damages.append("store damaged")
            self._copy = None
            files = {"db": b"no database at all", "db.gen": files.get("db.gen", b"lost")}
        elif flips:
            self.damages.append("store with a flipped bit")
            files = files | {"db": _flip(files["db"], Random(f"bit {part}"))}
        elif damage == "restored" and len(self._copies) > 1 and "db.gen" in files:
            self.damages.append("store restored")
            files_then, self._copy = self._copies[-2]
            files = files_then | {"db.gen": files["db.gen"]}
        self._starts += 1
        self.folder = disk.write_files(files, self._root / str(self._starts))

    def open(self, open_store: Callable[[], Store], now_ms: int, safe_ms: int) -> Store:
        """Open the store; if it is refused as restored or lost, restore it first, as an operator would.

        The time of the restoration is the later of `now_ms` and `safe_ms`.
        """
        try:
            return open_store()
        except (StoreRestored, StoreLost):
            self.damages.append("ledger --restored-at")
            restore_at(self.folder / "db", at_ms=max(now_ms, safe_ms), now_ms=now_ms, again_s=0)
            self._restored = True
            return open_store()

    def replaced_by(self, store: Store) -> ExpectedStore | None:
        """Return the expected contents of a new or restored store, or None if the store is neither."""
        is_new, restored, self._restored = not store.client_id.startswith(_OURS), self._restored, False
        restored_copy, self._copy = self._copy, None  # not reset earlier: a crash must keep it
        self.is_unknown = False
        if not is_new and not restored:
            return None
        contents = restored_copy.copy() if restored_copy else ExpectedStore()
        contents.floor_ms, contents.states = store.floor_ms, {}
        contents.marks = {key: max(end_ms, store.floor_ms) for key, end_ms in contents.marks.items()}
        return contents

    def name(self, store: Store, secret: bytes) -> None:
        """Replace the values that a new store draws with values that follow from the seed.

        These values are the client id, the secret, and the claim key of the generation.
        """
        if not store.client_id.startswith(_OURS):
            with store.transaction() as tx:
                values = [(f"{_OURS}{self._starts}", "client_id"), (secret, "secret")]
                tx.executemany("UPDATE meta SET value = ? WHERE key = ?", values)
        current = store._generation  # noqa: SLF001 - the drawn values are not arguments
        if current.claim_key != secret.hex():
            store._generation = current._replace(claim_key=secret.hex())  # noqa: SLF001
            generation.write_generation(store.path, store._generation)  # noqa: SLF001

    def copy(self, expected: ExpectedStore) -> None:
        """Keep a copy of the current store, with its expected contents, if this world keeps copies."""
        if self._makes_copies:
            self._copies.append((disk.read_files(self.folder), expected.copy()))


def _flip(content: bytes, random: Random) -> bytes:
    """Flip a bit of a byte that is not 0, outside the header, by which SQLite knows its files."""
    places = [place for place in range(100, len(content)) if content[place]]
    flipped = bytearray(content)
    if places:
        flipped[random.choice(places)] ^= 1 << random.randrange(8)
    return bytes(flipped)
