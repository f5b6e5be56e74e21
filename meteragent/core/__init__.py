"""The core of one stream, without I/O: messages and the time in, effects out.

Theory of operation: a stream
-----------------------------
`feed` takes a batch of messages and the time, and returns what to write (one transaction), which
messages to acknowledge once that is on disk, and when it wants to be called again. It keeps no
clock and draws from no generator: the time and the random bits are arguments. If what it asked
for cannot be written the process must end, because its memory is then ahead of the store.

Two clocks drive a wall-clock stream: windows and slots open at `now`, slots close at `closing`.
They differ only after a start, while the readings that waited in the broker are taken in and what
fell due meanwhile stays open (law 4, catch_up). An event-clock stream takes both, per meter, from
the newest timestamp accepted from it.

Rules
1. No slot has noise before its window's charge is in the same or an earlier commit (law 2); what is drawn
   ahead (`noise`) is of no window yet.
2. A window opens at or after the mark of its meter, and raises it to its end (law 1).
3. When slots close depends on the clock alone; those due together close in the order of their
   names, never in the order of arrival (law 4).
4. Nothing here logs, and nothing that is raised holds a reading.

Theory of operation: a meter's timeline
---------------------------------------
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

Rules
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
   noise bound, and masks a constant.
5. At most `PENDING` readings of a meter are pending; of more, those closest to another are dropped and
   given back.
6. A slot is covered only after it was opened: `covered_ms` never passes the clock, but to the end of
   a slot that is lost.
"""
