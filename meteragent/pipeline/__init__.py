"""The core of one stream, without I/O: messages and the time in, effects out.

Theory of operation
-------------------
`feed` takes a batch of messages and the time, and returns what to write (one transaction), which
messages to acknowledge once that is on disk, and when it wants to be called again. It keeps no
clock and draws from no generator: the time and the random bits are arguments. If what it asked
for cannot be written the process must end, because its memory is then ahead of the store.

Two clocks drive a wall-clock stream: windows and slots open at `now`, slots close at `closing`.
They differ only after a start, while the readings that waited in the broker are taken in and what
fell due meanwhile stays open (law 4, catch_up). An event-clock stream takes both, per meter, from
the newest timestamp accepted from it.

The rules
---------
1. No slot has noise before its window's charge is in the same or an earlier commit (law 2); what is drawn
   ahead (`noise`) is of no window yet.
2. A window opens at or after the mark of its meter, and raises it to its end (law 1).
3. When slots close depends on the clock alone; those due together close in the order of their
   names, never in the order of arrival (law 4).
4. Nothing here logs, and nothing that is raised holds a reading.
"""

from meteragent.pipeline.charges import Spending
from meteragent.pipeline.core import Pipeline
from meteragent.pipeline.stream import Effects, Stream

__all__ = ["Effects", "Pipeline", "Spending", "Stream"]
