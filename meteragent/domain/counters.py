"""What the agent counts: events, never values (and never per meter: law 4)."""

from collections import Counter

REFUSALS = {
    "refused_topic": "the topic does not name a meter",
    "refused_name": "the meter's name holds $, + or #, or a control character: no topic of the sink can",
    "refused_size": "the payload is larger than source.max_payload",
    "refused_empty": "the payload is empty",
    "refused_encoding": "the payload is not UTF-8",
    "refused_json": "the payload is not JSON",
    "refused_missing": "the value or the time is not in the payload",
    "refused_type": "the value is not a number",
    "refused_not_finite": "the value is NaN or infinite",
    "refused_time": "the time is not unix seconds, milliseconds or RFC 3339 with a zone",
    "refused_ahead": "the time is further ahead of the clock than window.ahead",
    "refused_unit": "the payload states another unit than the device's documentation",
    "refused_checksum": "the telegram's check sum is wrong, or it is cut short",
    "refused_unavailable": "the payload says that there is no value: unknown, unavailable",
    "refused_columns": "the payload has more or fewer values than source.value says",
    "refused_ambiguous": "several numbers of the payload fit what is asked for",
    "refused_extension": "the payload is of a version, or needs an extension, that is not known here",
    "refused_meter": "the payload is of another meter than source.id",
    "refused_meters": "there are source.max_meters meters already",
}
"""Messages that are not readings of this stream: acknowledged and counted, by reason."""

COUNTERS = {
    "received": "messages taken in",
    "retained": "retained messages: not readings, acknowledged",
    "other": "messages of the device that do not hold the quantity",
    "other_shard": "messages of meters that another agent of the fleet has: source.shard",
    **REFUSALS,
    "late": "readings of time that is already accounted for",
    "duplicate": "readings whose time was already seen",
    "replaced": "readings without times of their own, replaced by a newer one of the same millisecond",
    "early": "readings of time before the meter's first window",
    "accepted": "readings that count",
    "clamped": "values outside window.range, clamped to it",
    "thinned": "readings dropped, because too many of their meter waited for their time to come",
    "rolled_over": "registers that began again at source.modulus",
    "register_reset": "registers that fell otherwise, reset or replaced: what was used meanwhile is gap",
    "register_lost": "slots of a register lost: none of its readings came between a stop and the slot's end",
    "shed": "QoS 0 messages beyond what may wait for the core",
    "acked_open": "readings acknowledged early, because source.inflight were held",
    "gap_slots": "slots that closed without any reading",
    "opened": "windows opened and charged",
    "over_budget": "windows not opened, because the budget forbids",
    "withheld": "windows not opened, because their topic is refused and a tenth of the store waits for such",
    "held": "windows not opened, because another agent releases the meter, or that was not known yet",
    "unchecked": "meters whose first window opened though the sink's broker did not say whose they are",
    "released": "slots released",
    "forgotten": "meters forgotten after window.forget without a reading",
    "retired": "open windows dropped, because their stream is no longer configured",
    "retired_unsent": "undelivered messages of such streams, dropped to make room",
    "delivered": "messages the sink's broker has confirmed",
    "publish_refused": "publications the sink's broker refused; they wait, and are tried each hour",
    "oversized": "messages of more than 4 MiB: skipped, and acknowledged so that they do not come again",
    "source_lost": "connections to the source's broker lost",
    "sink_lost": "connections to the sink's broker lost",
    "store_full": "times the store was full of undelivered messages: everything stands",
    "store_unerased": "times another reader kept the store's log from being erased: everything stands",
    "clock_waits": "times the wall clock was earlier than the store: everything stands",
    "clock_jumped": "times the wall clock jumped forward, which counts as a restore of the store",
    "store_set_aside": "corrupt stores set aside",
}
"""Every counter and what it counts."""

FORMER_NAMES = {"over_budget": "passed"}
"""What a counter was called in the last version: metrics and health have both names for one version more."""


PUBLIC = frozenset(
    {
        *("opened", "over_budget", "withheld", "released", "retired", "retired_unsent", "delivered"),
        *("publish_refused", "source_lost", "sink_lost", "store_full", "clock_waits", "store_set_aside"),
    }
)
"""Counters that follow from the schedule, the links and the store: they tell nothing of what a meter did."""


class Counts(Counter[str]):
    """How often each thing of `COUNTERS` happened since the start."""

    def add(self, name: str, count: int = 1) -> None:
        """Count something; raises KeyError for a name that `COUNTERS` does not explain."""
        if name not in COUNTERS:
            raise KeyError(name)
        self[name] += count

    def part(self) -> "Counts":
        """Return counts of a part, each of which counts here too."""
        return _Part(self)

    def text(self, *, public: bool = False) -> str:
        """Return all that happened, or what is `PUBLIC`, as ``name=count``, in the order of `COUNTERS`."""
        names = [name for name in COUNTERS if self[name] and (name in PUBLIC or not public)]
        return " ".join(f"{name}={self[name]}" for name in names) or "nothing"


class _Part(Counts):
    """The counts of one stream, beside those of the agent."""

    def __init__(self, total: Counts) -> None:
        super().__init__()
        self._total = total

    def add(self, name: str, count: int = 1) -> None:
        """Count something here and in the total."""
        self._total.add(name, count)
        self[name] += count
