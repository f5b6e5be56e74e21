"""A rehearsal: what would leave, with seconds as slots, from the agent's own core."""

import json
import textwrap
from decimal import Decimal

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.cli.exit_codes import EXIT_CRASH
from meteragent.domain.identity import pseudonym
from meteragent.privacy.sampling import SystemBits
from meteragent.store.grants import Action
from meteragent.tools.rehearse import Rehearsal, Row, View
from meteragent.wire.descriptor import describe_terms
from tests.support.configurations import written

NOW = 1_795_176_123_456
HIDDEN = "level = 10000"
"""So much is noise hidden that a number is the measured one."""


class Stage:
    """A rehearsal of the only stream of a configuration, with a clock of a test."""

    def __init__(self, key: bytes | None = None, **sections: str) -> None:
        self.stream = config.parse(written(**sections)).stream[0]
        self.now_ms = NOW
        self.rehearsal = Rehearsal(self.stream, key, b"s" * 32, SystemBits(), NOW)
        self.rows: list[Row] = []

    def seconds(self, count: int, payload: str | None = None, *, retain: bool = False) -> None:
        """Let seconds pass, with a message at the begin of each."""
        for _ in range(count):
            if payload is not None:
                message = payload.encode()
                self.rows += self.rehearsal.receive("meters/house/power", message, retain, self.now_ms)
            self.now_ms += 1000
            self.rows += self.rehearsal.advance(self.now_ms)


def test_five_seconds_stand_for_a_slot() -> None:
    """A number each five seconds, with the noise of half an hour that hides 110 Wh."""
    stage = Stage()
    stage.seconds(60, "312")
    assert len(stage.rows) in {11, 12}
    assert {row.time_ms - NOW for row in stage.rows} <= {5000 * k for k in range(1, 13)}
    assert {(row.meter, row.measured, row.sd, row.unit) for row in stage.rows} == {("house", 312, 311.1, "W")}
    assert {row.half_width for row in stage.rows} == {659.5}
    assert len({row.number for row in stage.rows}) > 5


def test_the_mean_of_a_slot_is_that_of_its_seconds() -> None:
    """Each reading stands until the next one, as in a run."""
    stage = Stage(privacy=HIDDEN)
    stage.seconds(8, "100")
    stage.rows.clear()
    stage.seconds(2, "100")
    stage.seconds(1, "600")
    stage.seconds(1)
    stage.seconds(1, "100")
    stage.seconds(2)
    assert [row.measured for row in stage.rows] == pytest.approx([100, 300], abs=1)
    assert [row.number for row in stage.rows] == pytest.approx([100, 300], abs=1)


def test_a_rehearsal_sums_parts_as_a_run_does() -> None:
    """Each topic is subscribed to, has its own profile, and counts with its sign."""
    part = "[[source.part]]\ntopic = 'pv/power'\nprofile = 'json'\nsign = '-'"
    text = written(source="topic = 'net/power'\nmeter = 'home'", privacy=HIDDEN) + part
    stream = config.parse(text).stream[0]
    rehearsal = Rehearsal(stream, None, b"s" * 32, SystemBits(), NOW)
    rows: list[Row] = []
    for second in range(30):
        for topic, payload in (("net/power", b"900"), ("pv/power", b'{"power": 250}')):
            rows += rehearsal.receive(topic, payload, False, NOW + 1000 * second)
        rows += rehearsal.advance(NOW + 1000 * second + 999)
    assert rehearsal.filters == ("net/power", "pv/power")
    assert {row.measured for row in rows} == {650}


@pytest.mark.parametrize(
    ("preset", "slots"), [("appliance", 1), ("day", 1), ("bill", 1), ("typical-day", 4), ("street", 1)]
)
def test_every_window_passes_in_seconds(preset: str, slots: int) -> None:
    """Days and months are five seconds for each of their slots; the noise is that of the configuration."""
    window = "" if preset in {"appliance", "street"} else "timezone = 'Europe/Berlin'"
    stage = Stage(privacy=f"preset = '{preset}'", window=window)
    stage.seconds(25 * slots, "312")
    terms = config.terms(stage.stream)
    assert len(stage.rows) >= 2 * slots
    for row in stage.rows:
        assert row.measured == pytest.approx(312, abs=1)
        assert row.sd == pytest.approx(describe_terms(terms).facts["sd"], rel=0.08)  # months of 28 to 31 days


@pytest.mark.parametrize(("unit", "step"), [("Wh", "0.1"), ("kWh", "0.0001")])
def test_energies_are_those_of_a_whole_slot_at_this_rate(unit: str, step: str) -> None:
    """A register that grows by 0.1 Wh a second is one of 360 W: 180 Wh in half an hour."""
    stage = Stage(source=f"kind = 'register'\nunit = '{unit}'\nevery = '1s'", privacy=HIDDEN)
    for second in range(60):
        stage.seconds(1, str(1000 + second * Decimal(step)))
    expected = 180 if unit == "Wh" else 0.18
    assert len(stage.rows) >= 8
    assert [row.measured for row in stage.rows[1:]] == pytest.approx(
        [expected] * len(stage.rows[1:]), rel=0.03
    )


def test_slow_meters_get_longer_slots() -> None:
    """A slot with energies is never shorter than the time between readings."""
    source = "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '15min'\nevery = '15min'"
    stage = Stage(source=source, privacy=HIDDEN)
    assert stage.rehearsal.slot_ms == 15 * 60_000
    for _ in range(5):
        stage.seconds(1, "90")
        stage.seconds(899)
    assert len(stage.rows) >= 2
    assert [row.measured for row in stage.rows] == pytest.approx([180] * len(stage.rows), rel=0.02)


def test_power_that_is_sent_rarely_stands_for_several_slots() -> None:
    """A power holds until the next reading, so its slots stay short."""
    stage = Stage(source="every = '5min'", privacy=f"{HIDDEN}\naccept = ['sparse_readings']")
    stage.seconds(1, "312")
    stage.seconds(60)
    assert len(stage.rows) >= 11
    assert {row.measured for row in stage.rows} <= {311, 312}


def test_a_meter_is_shown_under_the_name_by_which_it_leaves() -> None:
    """With a key of pseudonyms, the owner sees what the receiver would see."""
    stage = Stage(key=b"key")
    stage.seconds(20, "312")
    assert {row.meter for row in stage.rows} == {pseudonym(b"key", "house")}


def test_what_is_refused_is_counted_and_explained() -> None:
    """Each problem of what arrives is shown once, in the words of `health`."""
    stage, lines = Stage(source="profile = 'json'"), list[str]()
    view = View(stage.stream, stage.rehearsal, lines.append, str)
    for _ in range(90):
        stage.seconds(1, "{}")
        view.show([])
    text = " ".join(lines)
    assert text.count("(refused_missing)") == 2
    assert text.index("none has been accepted") < text.index("no message contains a reading")


def test_it_says_what_is_different_from_a_run() -> None:
    """Which seconds stand for what, where a run would send, and that readings are shown."""
    stage, lines = Stage(source="unit = 'kW'\nurl = 'mqtt://here'"), list[str]()
    view = View(stage.stream, stage.rehearsal, lines.append, str)
    view.begin()
    text = " ".join(lines)
    for part in (
        "Nothing is sent, and nothing is written.",
        "Here a slot (30 min) takes 5 s. The noise is that of a real slot and hides 110 Wh",
        "A run would send each number to private/{meter}/power at mqtt://here",
        "`measured` shows your readings, clamped to window.range (0 to 20,000 W): it is never sent.",
    ):
        assert part in text
    view.show([Row("m", NOW, None, 1.0, 2.0, 1.0, 2.0, "kW"), Row("m", NOW, None, 2.0, 6.0, 1.0, 2.0, "kW")])
    view.end()
    text = " ".join(lines)
    assert "m: 2 slots, measured 1.50 kW on average; the mean of what would be sent is 4.00 kW" in text


def test_clamped_readings_are_warned_of() -> None:
    """Watts read as kilowatts are shown as the range's limit, so the first one is followed by a warning."""
    stage, lines = Stage(source="unit = 'kW'", privacy=HIDDEN), list[str]()
    view = View(stage.stream, stage.rehearsal, lines.append, str)
    warned: list[int] = []
    for _ in range(60):
        stage.seconds(1, "512.3")
        view.show([])
        warned += [stage.rehearsal.counts["clamped"]] * (" ".join(lines).count("Warning:") - len(warned))
    assert {row.measured for row in stage.rows} == {20}
    assert warned == [1, 10]
    text = " ".join(lines)
    assert text.startswith(
        "Warning: 1 reading was outside window.range (0 to 20,000 W), with source.unit = 'kW': `measured`"
        " shows the limit of the range instead, and a run would use it, too. Check source.unit and"
    )
    lines.clear()
    view.end()
    count = stage.rehearsal.counts["clamped"]
    assert f"{count} readings were outside window.range (0 to 20,000 W)" in " ".join(lines)


def test_readings_within_the_range_are_not_warned_of() -> None:
    """Neither while they are shown nor at the end."""
    stage, lines = Stage(), list[str]()
    view = View(stage.stream, stage.rehearsal, lines.append, str)
    for _ in range(20):
        stage.seconds(1, "512.3")
        view.show([])
    view.end()
    assert stage.rows
    assert "window.range" not in " ".join(lines)


def test_its_noise_is_drawn_from_the_bits_it_is_given() -> None:
    """Noise comes from the operating system's generator as in a run; nothing is kept between rehearsals."""
    numbers = set()
    for _ in range(2):
        stage = Stage()
        stage.seconds(60, "312")
        numbers.add(json.dumps([row.number for row in stage.rows]))
    assert len(numbers) == 2


def test_it_refuses_what_is_no_terminal(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raw readings must not end up in a file or a log, so a pipe gets nothing and 1."""
    path = tmp_path_factory.mktemp("rehearsal") / "home.toml"
    path.write_text(written(store=f'path = "{path.parent}/db"'))
    assert main(["run", str(path), "--rehearse"]) == EXIT_CRASH
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "terminal" in shown.err
    assert [file.name for file in path.parent.iterdir()] == ["home.toml"]


@pytest.mark.parametrize(
    ("utility", "app", "expected"),
    [
        ("false", "resume", "each number to u/{meter} at mqtt://here and to a/{meter} at mqtt://away."),
        (
            "true",
            "resume",
            "each number to a/{meter} at mqtt://away. utility: paused, so it gets nothing now.",
        ),
        (
            "false",
            "end",
            "each number to u/{meter} at mqtt://here. app: ended for good, so it gets nothing more.",
        ),
        ("true", "pause", "A run would send nothing: all receivers of this stream are paused or have ended."),
    ],
)
def test_it_names_each_receiver_that_a_run_would_send_to(utility: str, app: str, expected: str) -> None:
    """All receivers that share the stream, except those that are paused or have ended: these it names."""
    text = f"""
    source = {{url = "mqtt://here", topic = "m/{{meter}}", kind = "power", unit = "W", every = "10s"}}
    receiver = [
        {{name = "utility", topic = "u/{{meter}}", paused = {utility}}},
        {{name = "app", url = "mqtt://away", topic = "a/{{meter}}"}},
    ]
    """
    lines = list[str]()
    actions = {"app": Action(1, "app", app, "page", NOW)}
    [stream] = config.with_actions(config.parse(textwrap.dedent(text)), actions).stream
    rehearsal = Rehearsal(stream, None, b"s" * 32, SystemBits(), NOW)
    View(stream, rehearsal, lines.append, str).begin()
    assert expected in " ".join(lines)
