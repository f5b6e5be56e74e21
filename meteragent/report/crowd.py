"""The sentences of a statement about a stream that is part of a group's total (docs/crowd.md)."""

from meteragent import config
from meteragent.config.files import parse_endpoint

_SHARES = (
    "Readings are never stored and never sent. A slot's energy is split into two shares; each operator of the"
    " group can open one, and adds noise of its own to the sum of all homes."
)
_COPY = (
    "A copy of the disk shows, for each open slot, a share, which is uniform whatever energy is used. Two"
    " copies show the energy used between them; to an operator, one copy shows the energy of that slot up to"
    " the copy or from then on. Encrypt the disk if it can be stolen."
)
_KEPT = "Reports are deleted once they are delivered; the account of privacy spent is kept for ever."
HEAD = (_SHARES, _COPY, _KEPT)
"""The sentences about all streams of groups, which replace the sentences about records."""

WHO = (
    "each of the two operators, together with all other homes and every broker, with bounded computing power;"
    " it fails if both operators collude: then they know the home's energy in every slot, without noise"
)
"""The adversaries against whom the promise holds."""

DESCRIPTOR_SENTENCE = "The leader publishes the descriptor of the totals; the agent sends none."


def reports_text(stream: config.Stream) -> str:
    """Describe what is sent: one sealed report for each slot. Return "" if the stream has no group."""
    group = stream.group
    if group is None:
        return ""
    broker = parse_endpoint("sink", config.sink_url(stream), config.sink_broker(stream), None)
    return (
        f"To the broker {broker.host}:{broker.port}, {'with' if broker.tls else 'without'} TLS: a report for"
        f" each slot, on `{stream.sink.topic}`. Its parts are sealed to {group.leader.name} and to"
        f" {group.helper.name}, the operators of the group {group.name} (`{group.id.hex()}`). It is not sent"
        " after the group's deadline."
    )
