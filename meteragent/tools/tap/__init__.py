"""`meteragent tap`: raw readings next to private records, live in a terminal.

The command listens next to the agent: to the meters' topics and to the private topics, with the
configuration's credentials, separate client ids and no persistent session. It draws no noise and charges
nothing. Raw values go only to a terminal, and pending readings and means of slots are only in memory (law 3).
A slot that began before a meter's first reading arrived is partial, and is not compared.
"""

from meteragent.tools.tap.trace import Trace
from meteragent.tools.tap.view import StreamView, View

__all__ = ["StreamView", "Trace", "View"]
