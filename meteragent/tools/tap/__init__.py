"""`meteragent tap`: what the meters say beside what leaves, live in a terminal.

    view -> trace

It listens beside the agent: to the meters' topics on the source's broker and to the private ones on the
sink's, with the configuration's credentials, client ids of its own and no session that would stay. The
agent is not asked and does not notice; no noise is drawn and nothing is charged.

Rules (law 3)
1. Raw values go to a terminal only: where standard output is none, it refuses.
2. What it shows was seen since it was started; it is kept in memory, as much as open slots need, and
   nowhere else: not in an error, not in a log.
3. A slot that it has not heard from its start is partial, and not compared.
"""

from meteragent.tools.tap.trace import Trace
from meteragent.tools.tap.view import StreamView, View

__all__ = ["StreamView", "Trace", "View"]
