"""`meteragent discover`: searches a broker for meters, and proposes configurations.

Theory of operation
-------------------
    listener -> search (descriptions, families, names) -> findings (for commands), propose (the report)

The command listens for a while. Retained descriptions on the broker (Home Assistant's discovery messages and
unit topics, Tasmota, Zigbee2MQTT, Homie) state the kind and unit of numbers; profiles recognise known
families; names are used only if they state both kind and unit. A proposal is a starting point: the operator
confirms kind and unit (law 5).

Rules
1. Nothing is written to disk, no session remains with the broker, and memory for messages is bounded.
2. The report may be shown to other people: it contains topics, names, ids, counts and times between messages,
   but no values.
3. Only these properties of values are used: their sign, their size, whether they fall, and whether two places
   have equal values.
4. If the kind, unit or medium is uncertain, or a direction is ambiguous, nothing is proposed, and the reason
   is stated. A number whose name states no direction is proposed with a doubt.
5. Topics below a private stream, and topics that the agent cannot read, are ignored. Every other topic is
   proposed, read as a description, left out with a reason, listed as quiet (no power or energy), or counted.
"""

from meteragent.tools.discover.candidate import Unplaced
from meteragent.tools.discover.configuration import Access
from meteragent.tools.discover.findings import Findings, Offer, Proposal, find_meters
from meteragent.tools.discover.listener import Listener
from meteragent.tools.discover.propose import progress_line, report_text

__all__ = ["Access", "Findings", "Listener", "Offer", "Proposal", "Unplaced", "find_meters", "progress_line"]
__all__ += ["report_text"]
