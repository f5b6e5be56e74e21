"""What a store of version 3 holds, as version 4 keeps it.

Version 3 kept R as long as a window was open, and the accumulators of registers as fractions. Version 4
keeps R while slots are to be drawn from it, and whole numbers. States are rewritten when the store is first
opened, so that no copy made afterwards has what went. Windows that were open finish as they began, half-up.
"""

import sqlite3
from collections import defaultdict

from meteragent.domain.commit import Commit, TimelineState
from meteragent.store.schema import decode_state, decode_terms
from meteragent.store.states import States


def rewrite_states(tx: sqlite3.Connection, version: int, states: States) -> None:
    """Write all states of an earlier version as this one has them, over the old ones; raises StoreError."""
    slots = {
        (channel, id_): decode_terms(text).n
        for channel, id_, text in tx.execute("SELECT channel, id, terms FROM terms")
    }
    rewritten: defaultdict[str, dict[str, TimelineState | None]] = defaultdict(dict)
    for channel, meter, text in tx.execute("SELECT channel, meter, state FROM state ORDER BY id"):
        if not text.strip(b"\0"):
            continue
        state = decode_state(text, version)
        windows = tuple(
            window._replace(noise_bound=None) if window.drawn == slots[channel, window.terms] else window
            for window in state.windows
        )
        rewritten[channel][meter] = state._replace(windows=windows)
    for channel, known in rewritten.items():
        states.write(tx, Commit(channel, 0, states=known))
