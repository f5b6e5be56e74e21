"""Accumulators on the grid: one meter of one stream, its readings and its open windows.

Theory of operation
-------------------
A timeline turns readings into integrals over slots. `covered_ms` splits time in two: what came
before has been added to the accumulators of its slots and is never looked at again; what comes
after is still decided by the pending readings, kept in order of their time. Covering moves the
split forward. Time passes only as an argument; the timeline says when it wants to be woken
(`next_open_ms`, `next_close_ms`).

An accumulator counts in millionths of the unit times milliseconds. It begins as z * L + u before any
reading is added to it, L = quantum * slot length, z the slot's noise and u uniform on {0, ..., L - 1}:

    A = z * L + u + S,    released: floor(A / L)

S the energy so far. So A modulo L is uniform whatever was used, and one copy of A, at any time, is as
private as a record: a change of S by d quanta changes its odds by e^(a * ceil(d)) at most. A second copy
tells what was used since the first, as in every scheme that survives a crash without a secret elsewhere
(THEORY-2 A.1, A.2). What leaves is S / L on average, exactly. Windows of an earlier version have no u, and
finish as they began: A = z * L + S, released: floor(A / L + 1/2).

The rules
---------
1. A power reading stands until the next one, for at most `hold`; an interval reading covers the
   `interval` that ends at its time, but nothing that an earlier one covers; a register's reading says,
   with the next one, what was used between them (`register`). The rest is gap.
2. Time is covered once: a reading whose span is wholly covered is refused, one whose span is
   partly covered counts from there (law 7).
3. A reading's token is given back when its whole span is covered, never before. Where readings share a
   message, or one is the sum of several phases, `share` says when a message is free.
4. At most n noise values are ever drawn for one window, each slot's when it opens (THEORY 2.1). R is
   dropped with the last of them: while it is known, an accumulator tells more than its noise allows. The
   noise of a slot that is lost (`register`) is never used; what is drawn in its place is from a new
   radius, and masks a constant.
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
