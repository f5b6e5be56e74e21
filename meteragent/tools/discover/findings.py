"""The results of `discover` for other commands: proposals, unplaced topics and quiet topics.

    listener = Listener(now_ms)                # on_message(topic, payload, retain) for each message
    result = find_meters(listener)
    for proposal in result.proposals:          # a meter or similar meters; sub-meters and producers last
        proposal.title, proposal.role, proposal.meters, proposal.ids, proposal.assumptions, proposal.traps
        for offer in proposal.offers:          # its quantities; start with the first
            offer.kind, offer.unit, offer.direction, offer.source   # `source`: keys of [source]
            offer.to_toml(Access(url), "home") # a complete configuration, accepted without changes
    for entry in result.unplaced:              # heard or described, but not proposed
        entry.topic, entry.reason
        entry.missing                          # keys of [source] that nothing states, such as ("unit",)
        entry.source                           # the other keys, for a question to the operator; {} if unknown

The rules are those of the package.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import Candidate, Unplaced
from meteragent.tools.discover.configuration import Access, configuration_toml, source_keys
from meteragent.tools.discover.doubts import list_doubts
from meteragent.tools.discover.listener import Listener
from meteragent.tools.discover.search import search_log
from meteragent.tools.discover.words import Direction, Role


@dataclass(frozen=True, slots=True)
class Offer:
    """A quantity of a meter that can be read, as `candidate` describes."""

    candidate: Candidate

    @property
    def kind(self) -> Kind:
        """The kind of the numbers: power, interval energy or register."""
        return self.candidate.kind

    @property
    def unit(self) -> str:
        """The unit of the numbers, W, kW, Wh or kWh, after `source.scale`."""
        return self.candidate.unit

    @property
    def direction(self) -> Direction:
        """The direction of the counted energy."""
        return self.candidate.direction

    @property
    def name(self) -> str:
        """The quantity in words, such as 'power in W, drawn'."""
        return self.candidate.quantity_text

    @property
    def source(self) -> Mapping[str, Any]:
        """The keys of `[source]`, without the broker's keys and without `meter`."""
        return source_keys(self.candidate)

    def to_toml(self, access: Access, name: str = "home") -> str:
        """Return a configuration that is accepted without changes; `name` is the name of a single meter."""
        return configuration_toml(self.candidate, access, name)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A meter, or several meters that are read in the same way; `meters` then lists the values of {meter}."""

    title: str
    certainty: str
    role: Role
    meters: tuple[str, ...]
    ids: tuple[str, ...]
    offers: tuple[Offer, ...]
    assumptions: tuple[str, ...]
    traps: tuple[str, ...]

    def to_data(self, access: Access, name: str) -> dict[str, Any]:
        """Return the proposal for JSON; each quantity has a configuration as TOML, with this meter's name."""
        names = ("kind", "unit", "direction", "name", "source")
        offers = [
            {key: getattr(offer, key) for key in names} | {"toml": offer.to_toml(access, name)}
            for offer in self.offers
        ]
        return {item.name: getattr(self, item.name) for item in fields(self)} | {"offers": offers}

    @classmethod
    def of(cls, candidate: Candidate) -> "Proposal":
        """Return the proposal for a candidate with its alternatives."""
        return cls(
            title=candidate.title,
            certainty=candidate.certainty,
            role=candidate.role,
            meters=candidate.meters,
            ids=tuple(name for name, _ in candidate.ids.most_common()),
            offers=tuple(map(Offer, (candidate, *candidate.alternatives))),
            assumptions=tuple(list_doubts(candidate)),
            traps=candidate.device.traps if candidate.device else (),
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """All results of a search: proposals, unplaced topics, and topics that name neither power nor energy."""

    proposals: tuple[Proposal, ...]
    unplaced: tuple[Unplaced, ...]
    quiet_topics: tuple[str, ...]

    def to_json(self, access: Access) -> str:
        """Return the findings as JSON, without any value."""
        names = ["home", *(f"meter-{place + 2}" for place in range(len(self.proposals)))]
        proposals = [proposal.to_data(access, names[i]) for i, proposal in enumerate(self.proposals)]
        unplaced = [asdict(entry) for entry in self.unplaced]
        document = {"proposals": proposals, "unplaced": unplaced, "quiet_topics": self.quiet_topics}
        return json.dumps(document, ensure_ascii=False, indent=2, default=str)


def find_meters(listener: Listener, profiles: Mapping[str, Profile] = PROFILES) -> Findings:
    """Search a listener's log for meters known by a profile, a description on the broker or their names."""
    outcome = search_log(listener, profiles)
    proposals = tuple(map(Proposal.of, outcome.candidates))
    return Findings(proposals, tuple(outcome.unplaced), tuple(outcome.quiet))
