"""`meteragent discover`: the meters of a broker, and a configuration for each to start with.

Theory of operation
-------------------
    listener -> recognise (known families), guess (the rest) -> propose

The command listens for a while and considers topics, the profiles that can read their payloads, and the times
between messages. Known families come first, then topics and fields whose names suggest power or energy. A
proposal is a starting point: the operator states kind and unit (law 5).

Rules
1. Nothing is written to disk, and no session remains with the broker.
2. The report may be shown to other people: it has topics, names, ids, counts and times between messages, but
   no values.
3. Values are used only to judge whether they are plausible: by their sign, any fall, and their size.
4. Memory for messages is bounded.
"""

from meteragent.tools.discover.listener import Listener
from meteragent.tools.discover.propose import report

__all__ = ["Listener", "report"]
