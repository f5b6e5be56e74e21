"""Accumulators on the grid: one meter of one stream, its readings and its open windows.

Theory of operation
-------------------
A timeline turns readings into integrals over slots. `covered_ms` splits time in two: what came
before has been added to the accumulators of its slots and is never looked at again; what comes
after is still decided by the pending readings, kept in order of their time. Covering moves the
split forward. Time passes only as an argument; the timeline says when it wants to be woken
(`next_open_ms`, `next_close_ms`).

An accumulator counts in millionths of the unit times milliseconds and is born as noise * lattice,
before any reading is added to it (THEORY 3.4): at no time does it hold the energy alone. What a copy
of it tells at one moment is the energy modulo lattice = quantum * slot length, because the noise is a
multiple of that. It cannot be helped while rounding is exact: what is stored decides for every
energy still to come where the rounding jumps, and that is this remainder.

The rules
---------
1. A power reading stands until the next one, for at most `hold`; an interval reading covers the
   `interval` that ends at its time, but nothing that an earlier one covers; a register's reading says,
   with the next one, what was used between them (`register`). The rest is gap.
2. Time is covered once: a reading whose span is wholly covered is refused, one whose span is
   partly covered counts from there (law 7).
3. A reading's token is given back when its whole span is covered, never before. Where readings share a
   message, or one is the sum of several phases, `share` says when a message is free.
4. At most n noise values are ever drawn for one window, each slot's when it opens, the first's perhaps
   ahead (THEORY 2.1). The noise of a slot that is lost (`register`) is never used; what is drawn in its
   place is from a new radius, and masks a constant.
5. At most `PENDING` readings of a meter are pending; of more, those closest to another are dropped and
   given back.
6. A slot is covered only after it was opened: `covered_ms` never passes the clock, but to the end of
   a slot that is lost.
"""

from meteragent.release import Kind, Terms
from meteragent.window.phase import Phases, phases_of
from meteragent.window.register import RegisterTimeline
from meteragent.window.share import Share, give_back
from meteragent.window.slot import Window
from meteragent.window.timeline import Outcome, Pending, Timeline

__all__ = [
    "Outcome",
    "Pending",
    "Phases",
    "RegisterTimeline",
    "Share",
    "Timeline",
    "Window",
    "give_back",
    "phases_of",
    "timeline_of",
]


def timeline_of(terms: Terms) -> type[Timeline]:
    """The timeline of readings under these terms."""
    return RegisterTimeline if terms.kind is Kind.REGISTER else Timeline
