"""The agent with one thing changed: `python -m tests.integration.altered NAME run CONFIG`.

Mutants break a law on purpose, so that the tests can show that they would notice.
"""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from meteragent import cli
from meteragent.agent import unit
from meteragent.agent.link import outlets, source
from meteragent.agent.link.source import Source
from meteragent.core.factory import Factory
from meteragent.core.noise import Noise
from meteragent.core.timeline import Timeline
from meteragent.domain.commit import OpenWindow, Slot, TimelineState
from meteragent.domain.terms import Terms
from meteragent.mqtt import Link, Session, reconnect
from meteragent.mqtt import Token as MqttToken
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import SystemBits
from meteragent.store import Store, wal
from tests.integration.alone import listen_for


def acknowledges_on_receipt() -> None:
    """Break law 7: acknowledge a reading before anything of it is on disk."""
    serve, take = Source.serve, Source.on_message
    sessions: dict[Source, Session] = {}

    async def serving(self: Source, session: Session) -> None:
        """Serve as usual, and note the session."""
        sessions[self] = session
        await serve(self, session)

    def taking(
        self: Source, topic: str, payload: bytes, qos: int, retain: bool, token: MqttToken | None
    ) -> None:
        """Take the message without its token, and acknowledge it."""
        take(self, topic, payload, qos, retain, None)
        if token is not None:
            sessions[self].acknowledge([token])

    Source.serve, Source.on_message = serving, taking  # type: ignore[method-assign]


def redraws_on_restart() -> None:
    """Break law 1: start open windows over with fresh noise after a restart."""
    restore = Factory.restore_timeline
    bits = SystemBits()

    def redraw(window: OpenWindow, terms: Terms) -> OpenWindow:
        """Return the window with new noise and nothing else in its slots."""
        mechanism = LInfLaplace(terms.epsilon, terms.quantum, terms.n)
        noise_bound = mechanism.draw_noise_bound(bits)
        noise = [mechanism.draw_slot(noise_bound, bits) for _ in range(window.draws)]
        slots = tuple(Slot(place, z * terms.steps_per_quantum[0]) for place, z in enumerate(noise))
        more = noise_bound if window.draws < terms.n else None
        return window._replace(noise_bound=more, slots=slots)

    def restoring(self: Factory, next_ms: int, state: TimelineState, meter: str = "") -> Timeline:
        """Restore a meter as if its open windows had just begun."""
        windows = tuple(redraw(window, self.formats[window.terms_id].terms) for window in state.windows)
        starts_ms = [window.start_ms for window in windows]
        begun = state._replace(
            windows=windows,
            integrated_until_ms=min([*starts_ms, state.integrated_until_ms]),
            standing_ms=None,
        )
        return restore(self, next_ms, begun, meter)

    Factory.restore_timeline = restoring  # type: ignore[method-assign]


def impatient() -> None:
    """Reconnect at once, so that a broker can be killed often in a short test; this is not a mutant."""
    reconnect.CEILING_S = 0.2  # type: ignore[misc]


def impatient_alone() -> None:
    """Reconnect at once and listen for no other agent; this is not a mutant."""
    impatient()
    listen_for(0)


def watchful() -> None:
    """Reconnect at once, and notice a silent broker within 6 s, not 120; this is not a mutant."""
    impatient()
    for module in (unit, outlets):
        module.Link = partial(Link, keepalive_s=3)  # type: ignore[attr-defined]
    source.SILENCES_S = (2.0, 3.0, 4.5)


def remembers_fsyncs() -> None:
    """Copy the files on disk after every commit and every erasure; this is not a mutant.

    The copies are in the folder `synced`. Another process makes them, or SQLite would lose its locks.
    """
    committing, erase = Store.unerased_transaction, Store.erase_log
    number = count()

    def save(store: Store) -> None:
        """Copy the store's files to a new folder, and let `synced` refer to it."""
        new = store.path.with_name(f"synced-{next(number)}-{os.getpid()}")
        new.mkdir()
        files = [f"{store.path}{suffix}" for suffix in ("", "-wal", ".gen")]
        subprocess.run(["cp", *(file for file in files if Path(file).exists()), str(new)], check=True)
        link = store.path.with_name("synced.new")
        link.symlink_to(new)
        link.replace(store.path.with_name("synced"))

    @contextmanager
    def saving(self: Store) -> Iterator[sqlite3.Connection]:
        """Commit as usual, then copy."""
        with committing(self) as tx:
            yield tx
        save(self)

    def erasing(self: Store) -> None:
        """Erase as usual, then copy."""
        erase(self)
        save(self)

    Store.unerased_transaction, Store.erase_log = saving, erasing  # type: ignore[method-assign, assignment]


def undithered() -> None:
    """Break law 3: begin accumulators with noise alone, so that without noise they are the energy."""
    listen_for(0)
    Noise.draw_dither = lambda self, terms, slot_index: 0  # type: ignore[method-assign]


def only_truncates() -> None:
    """Break law 3: truncate the log without erasing it, so that its blocks keep every accumulator."""
    listen_for(0)
    wal._zero_log = lambda descriptor: None
    wal.LARGEST_KEPT_BYTES = 0


ALTERATIONS: dict[str, Callable[[], None]] = {
    alteration.__name__: alteration
    for alteration in (
        acknowledges_on_receipt,
        redraws_on_restart,
        impatient,
        impatient_alone,
        watchful,
        remembers_fsyncs,
        only_truncates,
        undithered,
    )
}

if __name__ == "__main__":
    ALTERATIONS[sys.argv[1]]()
    sys.exit(cli.main(sys.argv[2:]))
