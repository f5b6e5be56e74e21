"""`meteragent tap`: raw readings beside private records, live in a terminal.

Theory of operation
-------------------
    view -> trace

The command listens beside the agent: to the meters' topics on the source's broker and to the private topics
on the sink's broker, with the configuration's credentials, separate client ids and no lasting session. It
does not affect the agent: no noise is drawn and nothing is charged.

Rules (law 3)
1. Raw values go to a terminal only: if standard output is not a terminal, the command refuses.
2. The command shows only messages that arrive after its start. Readings are kept in memory, only as many as
   open slots need, and nowhere else: not in an error, not in a log.
3. A slot that began before the command is partial and is not compared.
"""

from meteragent.tools.tap.trace import Trace
from meteragent.tools.tap.view import StreamView, View

__all__ = ["StreamView", "Trace", "View"]
