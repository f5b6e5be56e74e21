"""`meteragent discover`: which meters a broker has, and a configuration for each to begin with.

    heard -> recognise (known families), guess (the rest) -> propose

It listens for a while and looks at topics, at which profile reads their payloads, and at when they come. A
family that is known comes first, then what only looks like power or energy by its name. What it proposes is
a place to begin: kind and unit are never settled here, the operator states them (law 5).

Rules
1. Nothing is written to disk, and no session of it stays with the broker.
2. What is printed may be shown to others: topics, names, ids, counts and times between messages, no values.
3. From values nothing follows but whether they are plausible: a sign, a fall, a size.
4. What is kept of messages is bounded.
"""

from meteragent.tools.discover.heard import Listener
from meteragent.tools.discover.propose import report

__all__ = ["Listener", "report"]
