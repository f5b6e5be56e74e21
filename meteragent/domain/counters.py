"""The agent's counters, which count events, never values, and never per meter (law 4)."""

from collections import Counter

REFUSALS = {
    "refused_topic": "the topic does not name a meter",
    "refused_name": "the meter's name contains $, +, # or a control character, which no sink topic may have",
    "refused_size": "the payload is larger than source.max_payload",
    "refused_empty": "the payload is empty",
    "refused_encoding": "the payload is not UTF-8",
    "refused_json": "the payload is not JSON",
    "refused_compressed": "the payload is compressed: switch compression off where it is sent",
    "refused_encrypted": "the payload is an encrypted or undecoded telegram (DLMS, M-Bus, SML): decode it"
    " where it is read, with the meter's key",
    "refused_sparkplug": "the payload is Sparkplug B, which is binary: have its gateway publish JSON",
    "refused_influx": "the payload is a line for InfluxDB: send JSON (telegraf: data_format = 'json')",
    "refused_notation": "the payload is Python or JavaScript: send JSON (json.dumps, JSON.stringify)",
    "refused_part": "the payload begins with a part of a telegram: send each one whole, in one message",
    "refused_comma": "the number has a comma or separators: send it with a point only, such as 1234.5",
    "refused_list": "the payload is a list of values as text: send a number on each topic, or JSON",
    "refused_suffix": "the payload is a number with a unit: send only the number",
    "refused_missing": "the payload lacks the value or the time",
    "refused_type": "the value is not a number",
    "refused_not_finite": "the value is NaN or infinite",
    "refused_time": "the time is not unix seconds, milliseconds or RFC 3339 with a zone",
    "refused_ahead": "the time is further ahead of the clock than window.ahead",
    "refused_zone": "the times differ persistently from their arrival by whole hours: check source.timezone",
    "refused_stale": "the gateway repeats a value of a meter that it has not heard for source.hold",
    "refused_unit": "the unit that the payload or source.unit_topic states is another than configured",
    "refused_wrapped": "the power is a negative 32-bit number that the device sends as a positive one",
    "refused_checksum": "the telegram is cut short, or its checksum is wrong",
    "refused_unavailable": "the payload states that there is no value (unknown, unavailable)",
    "refused_columns": "the payload has more or fewer values than source.value states",
    "refused_ambiguous": "several numbers in the payload match, and source.value does not name one",
    "refused_extension": "the payload has a version, or needs an extension, that this version cannot read",
    "refused_meter": "the payload is from a meter other than source.id",
    "refused_meters": "there are already source.max_meters meters",
}
"""The reasons for refusing a message as a reading of this stream; a refused message is still acknowledged."""

COUNTERS = {
    "received": "messages received",
    "retained": "retained messages: acknowledged, but not used as readings",
    "other": "messages of the device that do not contain the quantity",
    "other_shard": "messages of meters that belong to another agent of the fleet (source.shard)",
    **REFUSALS,
    "late": "readings for a time that is already integrated",
    "duplicate": "readings with the time of an earlier reading",
    "replaced": "readings without a timestamp, replaced by a newer one that arrived in the same millisecond",
    "from_future": "readings dropped because the meter's clock was fast when it sent them, and is right now",
    "early": "readings from before the meter's first window",
    "accepted": "readings accepted",
    "clamped": "values outside window.range, clamped to it",
    "thinned": "readings dropped because too many readings of their meter were pending",
    "rolled_over": "rollovers of registers at source.modulus",
    "register_reset": "resets and replacements of registers: the time between the two readings is a gap",
    "register_jump": "jumps of registers to a level that no load explains: that time is a gap",
    "register_glitch": "readings of registers dropped because other readings contradict them",
    "register_lost": "slots of a register lost: no reading arrived between a stop and the end of the slot",
    "shed": "QoS 0 messages dropped because the queue to the core was full",
    "acked_open": "readings acknowledged early because source.inflight messages were unacknowledged",
    "gap_slots": "slots that closed and had received no reading since the agent started",
    "prices": "prices from window.weights.topic accepted before their time began",
    "price_late": "prices refused because their time had begun",
    "price_repeated": "prices repeated with the same time and value",
    "price_conflict": "prices refused because their time has another price",
    "price_times": "prices refused because their times are not whole quarter hours within 62 days",
    "price_clamped": "prices beyond window.weights.bound, clamped to it",
    "opened": "windows opened and charged",
    "peak_redrawn": "peaks charged again because of a restart between parts of their window",
    "over_budget": "windows not opened because they would exceed the budget",
    "withheld": "windows that a receiver of a refused topic did not get: such rows fill a tenth of the store",
    "no_keys": "slots of a crowd not opened: an operator's day key is missing, or a name is an invalid label",
    "held": "windows that a receiver did not get: another agent releases the meter to it, or may do so",
    "unchecked": "meters whose first window opened although the sink's broker did not say who releases them",
    "released": "slots released",
    "forgotten": "meters forgotten after window.forget without a reading",
    "retired": "states of meters erased because their stream is no longer configured",
    "retired_unsent": "undelivered messages of streams that are no longer configured, dropped to make room",
    "report_late": "reports to a crowd not sent because the group's deadline had passed; they stay charged",
    "delivered": "messages that the sink's broker has confirmed",
    "publish_refused": "messages that the sink's broker refused; they wait and are sent again each hour",
    "oversized": "messages of more than 4 MiB: skipped, and acknowledged so that they are not sent again",
    "source_lost": "connections to the source's broker lost",
    "sink_lost": "connections to the sink's broker lost",
    "store_full": "pauses because the store was full of undelivered messages",
    "store_unerased": "pauses because another reader kept the store's log from being erased",
    "clock_waits": "pauses because the wall clock was earlier than the store's newest time",
    "clock_jumped": "forward jumps of the wall clock, which are treated as a restore of the store",
    "store_set_aside": "corrupt stores set aside",
}
"""Every counter, with the events that it counts."""

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

    def add(self, name: str, count: int = 1) -> None:
        """Count `count` events. Raises KeyError if `name` is not in `COUNTERS`."""
        if name not in COUNTERS:
            raise KeyError(name)
        self[name] += count

    def part(self) -> "Counts":
        """Create the counts for a part of the agent; the part's events are also counted here."""
        return _Part(self)

    def text(self, *, public: bool = False) -> str:
        """Format all positive counts, or only `PUBLIC` ones, as ``name=count`` in the order of `COUNTERS`.

        Returns "nothing" if there are none.
        """
        names = [name for name in COUNTERS if self[name] and (name in PUBLIC or not public)]
        return " ".join(f"{name}={self[name]}" for name in names) or "nothing"


class _Part(Counts):
    """The counts of one part of the agent, which are also added to the agent's counts."""

    def __init__(self, total: Counts) -> None:
        super().__init__()
        self._total = total

    def add(self, name: str, count: int = 1) -> None:
        """Count events both here and in the agent's counts."""
        self._total.add(name, count)
        self[name] += count
