"""The agent's counters, which count events, never values, and never per meter (law 4)."""

from collections import Counter

from meteragent.texts import english_texts

COUNTERS = english_texts("counter.")
"""Every counter, with the events that it counts."""

REFUSALS = {name: text for name, text in COUNTERS.items() if name.startswith("refused_")}
"""The reasons for refusing a message as a reading of this stream; a refused message is still acknowledged."""

PUBLIC = frozenset(
    {
        *("opened", "over_budget", "peak_redrawn", "withheld", "released", "retired", "delivered"),
        *("retired_unsent", "no_keys", "report_late"),
        *("publish_refused", "source_lost", "sink_lost", "store_full", "clock_waits", "store_set_aside"),
    }
)
"""The counters that reveal nothing about a meter: they depend only on the schedule, connections and store."""


class Counts(Counter[str]):
    """The number of events of each counter since the agent started."""

    total_counts: "Counts | None" = None

    def add(self, name: str, count: int = 1) -> None:
        """Count `count` events. Raises KeyError if `name` is not in `COUNTERS`."""
        if name not in COUNTERS:
            raise KeyError(name)
        counts: Counts | None = self
        while counts is not None:
            counts[name] += count
            counts = counts.total_counts

    def make_part(self) -> "Counts":
        """Create the counts for a part of the agent; the part's events are also counted in this object."""
        part = Counts()
        part.total_counts = self
        return part

    def as_text(self, *, is_public: bool = False) -> str:
        """Format all positive counts, or only `PUBLIC` ones, as ``name=count``, or return "nothing"."""
        names = [name for name in COUNTERS if self[name] and (name in PUBLIC or not is_public)]
        return " ".join(f"{name}={self[name]}" for name in names) or "nothing"
