"""`meteragent tap`: raw readings next to private records, live in a terminal.

Theory of operation
-------------------
    view -> trace

The command listens beside the agent: to the meters' topics on the source's broker and to the private topics
on the sink's broker, with the configuration's credentials, separate client ids and no persistent session.
It draws no noise and charges nothing. Raw values go only to a terminal, and pending readings and the means of
slots are only in memory, in no error or log (law 3). A slot that began before a meter's first reading arrived
is partial, and is not compared.
"""

from meteragent.tools.tap.trace import Trace
from meteragent.tools.tap.view import StreamView, View

__all__ = ["StreamView", "Trace", "View"]
