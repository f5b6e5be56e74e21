"""The conversion of states from versions before 4 to version 4.

Version 3 kept the noise bound R as long as a window was open, and stored the accumulators of registers as
fractions. Version 4 keeps R only until the noise of all slots is drawn, and stores accumulators as whole
numbers. States are rewritten when a newer program first opens the store, so that no later copy holds the
removed values. Windows that were open at that time finish as they began: their values are rounded half up.
"""

import sqlite3
from collections import defaultdict

from meteragent.domain.commit import Commit, TimelineState
from meteragent.store.schema import decode_state, decode_terms
from meteragent.store.states import States


def rewrite_states(tx: sqlite3.Connection, version: int, states: States) -> None:
    """Rewrite all states of an earlier version in the current format.

    Blank states stay blank. Raises StoreError if a state or terms cannot be read, and KeyError if a state's
    terms are missing.
    """
    slot_counts = {
        (stream, id_): decode_terms(text).n
        for stream, id_, text in tx.execute("SELECT channel, id, terms FROM terms")
    }
    states_by_stream: defaultdict[str, dict[str, TimelineState | None]] = defaultdict(dict)
    for stream, meter, text in tx.execute("SELECT channel, meter, state FROM state ORDER BY id"):
        if not text.strip(b"\0"):
            continue
        state = decode_state(text, version)
        windows = tuple(
            window._replace(noise_bound=None)
            if window.draws == slot_counts[stream, window.terms_id]
            else window
            for window in state.windows
        )
        states_by_stream[stream][meter] = state._replace(windows=windows)
    for stream, states_by_meter in states_by_stream.items():
        states.write(tx, Commit(stream, 0, states=states_by_meter))
