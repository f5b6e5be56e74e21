"""The problems that an agent can have: each has a stable code, a cause and a cure.

A problem never contains a reading and never names a meter (law 4); it may state a number of meters.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from meteragent.domain.counters import COUNTERS
from meteragent.domain.grid import duration_text


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a code: its cause (which may have fields to fill in), its cure, and a section.

    `section` is the anchor of a section with more detail in docs/signs.md.
    """

    cause: str
    cure: str
    section: str


PROBLEMS = {
    "no_clock": Meaning(
        "processing paused: no usable clock",
        "Set the system's clock: it is behind the newest time in the store. Nothing is lost.",
        "the-clock-is-wrong",
    ),
    "clock_jumped": Meaning(
        "the clock jumped {step} ahead: treated as a resumed snapshot, open windows dropped",
        "If a snapshot of this machine was resumed, there is nothing to do; the ledger states the time from "
        "which its charges are complete. Otherwise find out what sets the clock.",
        "the-clock-jumped",
    ),
    "store_full": Meaning(
        "processing paused: no room in the store",
        "Bring the sink's broker back, or raise store.max_mb and restart.",
        "the-store-is-full",
    ),
    "disk_full": Meaning(
        "the disk of the store is full",
        "Free some space. When a write fails, the agent ends; nothing that it has acknowledged is lost.",
        "the-disk-is-full",
    ),
    "wal_not_erased": Meaning(
        "another program is reading the store and keeps its log from being erased",
        "Find it (`fuser -v` on the store's file) and stop it, or make it read in short transactions: while "
        "it reads, earlier sums of open slots stay on the disk. After ten minutes processing pauses.",
        "the-log-is-not-erased",
    ),
    "unerased_stands": Meaning(
        "processing paused: another program has kept the store's log from being erased for ten minutes",
        "Find it (`fuser -v` on the store's file) and stop it; processing then continues.",
        "the-log-is-not-erased",
    ),
    "source_down": Meaning(
        "no connection to the broker of the source",
        "Check that the broker runs, and source.url, the user and the password; the log gives the reason.",
        "a-connection-is-lost",
    ),
    "sink_down": Meaning(
        "no connection to the broker of the sink",
        "Check that the broker runs, and sink.url, the user and the password; the log gives the reason. "
        "Records wait in the store.",
        "a-connection-is-lost",
    ),
    "login_refused": Meaning(
        "the broker of the {side} refuses the login",
        "Check {side}.username and {side}.password_file. If they are right, the broker may accept only "
        "certain client ids: set {side}.client_id.",
        "the-broker-does-not-take-the-agent",
    ),
    "client_id_refused": Meaning(
        "the broker of the {side} does not accept the client id",
        "Set {side}.client_id to an id that the broker accepts.",
        "the-broker-does-not-take-the-agent",
    ),
    "qos_refused": Meaning(
        "the broker of the {side} has no QoS 1: messages would be lost without a trace",
        "Allow QoS 1 at the broker (mosquitto: max_qos), or use another.",
        "the-broker-does-not-take-the-agent",
    ),
    "subscription_refused": Meaning(
        "the broker of the {side} refuses the subscription",
        "At the broker, allow the agent's user to read {side}.topic. If the broker forbids wildcards, name "
        "the meter in the topic and in {side}.meter.",
        "the-broker-does-not-take-the-agent",
    ),
    "no_retain": Meaning(
        "the broker of the {side} retains no messages: who subscribes later waits up to an hour for the "
        "descriptor",
        "Allow retained messages at the broker (mosquitto: retain_available), and restart. Otherwise have "
        "receivers subscribe before the agent starts; numbers leave as usual.",
        "the-broker-retains-nothing",
    ),
    "certificate_unknown": Meaning(
        "the certificate of the {side}'s broker is from an authority that the agent does not know",
        "Set {side}.ca_file to that authority's certificate, or to the broker's if it is self-signed.",
        "the-broker-does-not-take-the-agent",
    ),
    "certificate_wrong": Meaning(
        "the certificate of the {side}'s broker is not for this address, or not for this time",
        "The log says which: write a name of the certificate in {side}.url, renew the certificate, or set "
        "this machine's clock.",
        "the-broker-does-not-take-the-agent",
    ),
    "certificate_wanted": Meaning(
        "the broker of the {side} asks for a certificate of the agent, or does not accept it",
        "Set {side}.cert_file and {side}.key_file to a certificate from an authority that the broker trusts.",
        "the-broker-does-not-take-the-agent",
    ),
    "port_with_tls": Meaning(
        "the port of the {side}'s broker speaks only TLS",
        "Write mqtts:// in {side}.url, with the port for TLS (usually 8883).",
        "the-broker-does-not-take-the-agent",
    ),
    "port_without_tls": Meaning(
        "the port of the {side}'s broker ends each TLS connection at once",
        "Write a port with TLS 1.2 or newer in {side}.url (usually 8883), or mqtt:// if it has no TLS.",
        "the-broker-does-not-take-the-agent",
    ),
    "no_answer": Meaning(
        "the broker of the {side} gives no answer",
        "Check the port in {side}.url: one for TLS needs mqtts://. Some brokers are silent about a wrong "
        "{side}.client_id or {side}.protocol; the broker's log gives the reason.",
        "the-broker-does-not-take-the-agent",
    ),
    "no_keys": Meaning(
        "the keys of the group's operators are missing for this slot: no slot opens, and nothing is reported",
        "Allow the sink's user to read crowd/NAME/keys/leader and crowd/NAME/keys/helper, and ask the "
        "operators whether they run; the log names a list that was refused.",
        "slots-of-a-crowd-do-not-open",
    ),
    "topic_refused": Meaning(
        "topics that the sink's broker refuses: {topics}; their messages wait, and are sent again each hour",
        "At the sink's broker, allow the agent's user to publish to sink.topic and to all topics below it; "
        "the broker's log names the topic. A restart sends the messages again at once.",
        "the-broker-refuses",
    ),
    "messages_wait": Meaning(
        "messages that wait: {waiting}, the first for {since}",
        "Check the log for refusals by the sink's broker. After a long outage this is the backlog, which "
        "clears by itself.",
        "records-wait",
    ),
    "other_agent": Meaning(
        "another agent releases {meters} of the meters to the same receiver, which gets none of their "
        "windows here",
        "Stop one of the two agents. If the other has been removed for good, stop this one, run `meteragent "
        "ledger CONFIG --restored-at now` and start it again.",
        "another-agent-releases-a-meter",
    ),
    "earlier_store": Meaning(
        "an earlier store has released {meters} of the meters, and this one does not know what (was the "
        "earlier one deleted?): the receiver gets none of their windows here",
        "Wait for the length of a slot: another agent that still sends these meters is named then, if the "
        "broker lets this one read sink.topic. If there is none, the earlier store was deleted or lost: stop "
        "the agent, run `meteragent ledger CONFIG --restored-at now` and start it again.",
        "another-agent-releases-a-meter",
    ),
    "no_message": Meaning(
        "no message has arrived for {limit}",
        "Check that the meter is on, that it publishes on source.topic, and that the broker lets the agent "
        "read it: `meteragent discover` shows the messages that arrive.",
        "no-reading-is-accepted",
    ),
    "no_readings": Meaning(
        "no reading has counted for {limit}",
        "`meteragent health --meters` names the meters that are silent. Check that each is on and publishes "
        "on source.topic; `meteragent tap` shows what arrives. A meter that is gone for good is forgotten "
        "after window.forget.",
        "no-reading-is-accepted",
    ),
    "none_accepted": Meaning(
        "messages arrive, but none has counted: {reasons}",
        "`meteragent tap` shows why each message is refused. Compare source.profile, source.value and "
        "source.topic with it; if readings are late or ahead, check this machine's and the meter's clock.",
        "no-reading-is-accepted",
    ),
    "none_counts": Meaning(
        "messages arrive, but none counts any more: {reasons}",
        "`meteragent health --meters` names the meters, and `meteragent tap` shows what arrives. If readings "
        "come with the time of an earlier one, the program that sends them repeats an old one: restart it.",
        "no-reading-is-accepted",
    ),
    "wrong_profile": Meaning(
        "none of the messages holds a reading: {reasons}",
        "Compare source.profile, source.value and source.topic with the meter's messages: `meteragent tap` "
        "shows them, `meteragent discover` proposes a configuration.",
        "messages-are-refused",
    ),
    "some_refused": Meaning(
        "at least one message in four is refused: {reasons}",
        "`meteragent tap` shows which. What they contain does not count, and the reading before stands "
        "instead: correct the program that sends them.",
        "messages-are-refused",
    ),
    "phase_silent": Meaning(
        "nothing counts, because not all {phases} phases are heard",
        "`meteragent health --meters` names the phase that is silent. Check its meter, and source.topic and "
        "source.phases or [[source.part]]. If phases report only changes, set source.every = 0 and, for "
        "powers, source.hold.",
        "no-reading-is-accepted",
    ),
    "clock_behind": Meaning(
        "all readings are ahead of this machine's clock, by {off}",
        "Set this machine's clock (`timedatectl`), or the meter's if that is the wrong one.",
        "the-clock-is-wrong",
    ),
    "wrong_zone": Meaning(
        "the times of the readings differ from their arrival by whole hours",
        "Set source.timezone to the meter's time zone, or to 'arrival' to ignore the meter's times.",
        "the-clock-is-wrong",
    ),
    "all_late": Meaning(
        "all readings come too late: their times are {off} behind",
        "The meter's clock is behind, or this machine's is ahead: set the wrong one, or remove source.time "
        "to use the time of arrival. If messages take a long time to arrive, raise window.lateness.",
        "readings-are-late",
    ),
    "all_clamped": Meaning(
        "all of the last readings were outside window.range",
        "Check source.unit and source.scale: watts read as kilowatts are 1,000 times too large. If solar "
        "power is fed in, window.range must reach below 0. If a register worked before, its unit may have "
        "changed: compare it with `meteragent tap`.",
        "values-are-clamped",
    ),
    "register_steps": Meaning(
        "a register stands still, and then rises by more than window.range allows: the rest of each rise is "
        "lost",
        "Set source.dead_band to the step in which the register counts: 1 for whole kWh in kWh.",
        "values-are-clamped",
    ),
    "register_doubted": Meaning(
        "readings of a register contradict those before, and do not count",
        "Compare what the meter shows with `meteragent tap`: two registers on one topic (tariffs, or another "
        "meter) need a topic or a value each, and source.phases sums them; if the unit changed, correct "
        "source.unit or source.scale; if it only falls, its sign is wrong. If the register shows 0 or an old "
        "value while its device sleeps, this ends by itself.",
        "a-register-was-reset-or-lost",
    ),
    "some_clamped": Meaning(
        "at least one reading in four was outside window.range, and counted as its end",
        "If solar power is fed in, window.range must reach below 0. If the load is larger, raise its upper "
        "end. `meteragent tap` shows the readings.",
        "values-are-clamped",
    ),
    "register_jump": Meaning(
        "a register jumped to a level that no load explains, and goes on from there",
        "Compare what the meter shows with `meteragent tap`: if the unit or the decimal point of its values "
        "has changed, correct source.unit or source.scale. If it was replaced, there is nothing to do.",
        "a-register-was-reset-or-lost",
    ),
    "register_reset": Meaning(
        "registers were reset three times or more within a day; what was used meanwhile is a gap",
        "If the counter rolls over, set source.modulus. If it starts again whenever its device does, or each "
        "hour, use a counter that does not.",
        "a-register-was-reset-or-lost",
    ),
}
"""Every problem, by its code. Codes are stable, because alarms and scripts use them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A condition that needs a person's attention, in one stream or in the agent (`stream` is None).

    `fields` are those of the cause; the names of fields in milliseconds end in `_ms`, and `reasons` is a list
    of counters of refusals, separated by spaces. If `of` is among them, `meters` of `of` meters have the
    problem.
    """

    code: str
    cause: str
    cure: str
    stream: str | None = None
    fields: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The cause as a sentence, after the stream's name and how many of its meters have it."""
        meters, of = self.fields.get("meters"), int(self.fields.get("of", 1))
        cause = self.cause if of == 1 else f"{meters} of {of} meters: {self.cause}"
        return cause if self.stream is None else f"stream {self.stream}: {cause}"


def problem(code: str, stream: str | None = None, **fields: str | int) -> Problem:
    """Create a problem of the agent with the `fields` of its cause and cure filled in.

    Raises KeyError if `code` is unknown or a field is missing.
    """
    return filled(PROBLEMS, code, fields, stream)


def filled(
    meanings: Mapping[str, Meaning], code: str, fields: Mapping[str, str | int], stream: str | None = None
) -> Problem:
    """Create a problem of the service that has these meanings; like `problem`, which is for the agent."""
    meaning, texts = meanings[code], dict(fill(fields, duration_text, COUNTERS.__getitem__))
    return Problem(code, meaning.cause.format(**texts), meaning.cure.format(**texts), stream, fields)


def advice(code: str, side: str) -> str:
    """Return what to do about a connection that fails, with the keys of its side; empty without a code."""
    return PROBLEMS[code].cure.format(side=side) if code else ""


def fill(
    fields: Mapping[str, str | int], duration: Callable[[int, int], str], meaning: Callable[[str], str]
) -> Iterator[tuple[str, str | int]]:
    """Yield the fields of a cause as they are written in a language.

    `duration` writes milliseconds with so many units; `meaning` says what a counter counts.
    """
    for name, value in fields.items():
        if name.endswith("_ms"):
            yield name.removesuffix("_ms"), duration(int(value), 2)
        elif name == "reasons":
            yield name, "; ".join(f"{meaning(reason)} ({reason})" for reason in str(value).split())
        else:
            yield name, value


class Alarms:
    """The problems that have been raised and not cleared, at most one for each code and stream."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, str | None], Problem] = {}

    def raise_(self, code: str, stream: str | None = None, **fields: str | int) -> None:
        """Raise a problem; it replaces an active problem with the same code and stream."""
        self._active[code, stream] = problem(code, stream, **fields)

    def clear(self, code: str, stream: str | None = None) -> None:
        """Clear a problem; do nothing if it is not raised."""
        self._active.pop((code, stream), None)

    @property
    def active(self) -> tuple[Problem, ...]:
        """The problems that have not been cleared, oldest first."""
        return tuple(self._active.values())
