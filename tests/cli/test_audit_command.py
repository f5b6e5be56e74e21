"""The `audit` command: it tries what is configured, says what it found, and refuses every false promise.

Draws are seeded, so a run repeats. A control is refused at SAMPLES draws with a chance of 1 - 1e-6 at least
(statistical/test_conformance_controls.py).
"""

import json
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.cli.exit_codes import EXIT_CONFIG, EXIT_CRASH, EXIT_VIOLATED
from meteragent.core.noise import Noise
from meteragent.core.window import Window
from meteragent.domain.grid import parse_time
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.audit import ALARM, Audit
from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.report import audit
from meteragent.report.audit import audit_mechanisms
from meteragent.wire.descriptor import describe_terms
from tests.support import controls
from tests.support.configurations import energy, streams, written
from tests.support.controls import CAUGHT, Control

SAMPLES = 6000
WINDOW = "length = '{n}min'\nstep = '1min'"
ALONE, SENT = "The mechanism alone", "From readings to messages"


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks the system for bits gets the same ones in every run."""
    monkeypatch.setattr("meteragent.privacy.audit.BulkBits", lambda: SeededBits(11))


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs `audit` on a configuration, in a wide terminal; returns how it ended and what it said."""
    monkeypatch.setenv("COLUMNS", "200")

    def made(text: str, *arguments: str) -> tuple[int, str, str]:
        path = tmp_path / "home.toml"
        path.write_text(text)
        code = main(["audit", str(path), *arguments])
        return (code, *capsys.readouterr())

    return made


# What a configuration may be, and passes


CALENDAR = "timezone = 'Europe/Amsterdam'"
SETTINGS = {
    "appliance": written(),
    "day": written(privacy="preset = 'day'", window=CALENDAR),
    "typical-day": written(privacy="preset = 'typical-day'", window=CALENDAR),
    "a curve": written(window="length = '24h'\nblocks = 12", privacy="space = 'curve'"),
    "energy": written(source=energy("kWh"), window="gap = 0.01\nlateness = '1h'"),
    "replay": written(source="hold = '10s'", window="clock = 'event'\nlateness = '3min'\ngap = 20"),
    "above a threshold": written(window="threshold = 3000\ngap = 4000"),
    "no noise": written(privacy="level = 1000000"),
    "two streams": streams(("power", "a/{meter}", '"b/{meter}"'), ("sub", "c/{meter}", '"d/{meter}"')),
}


@lru_cache
def found(name: str) -> Any:
    """What is found of a setting, as data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "_CORE_SLOTS", 1000)
        tried = audit_mechanisms(config.parse(SETTINGS[name]), samples=100, bits=SeededBits(12))
    return json.loads(audit.as_json(tried))


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_right_passes(name: str) -> None:
    """Every kind of configuration passes, and no more is said to be shown than is claimed."""
    assert found(name)["holds"]
    for trial in found(name)["trials"]:
        for part in (trial["mechanism"], trial["messages"]):
            assert part["holds"]
            assert part["epsilon"] == trial["epsilon"]
            assert part["lower"] <= Fraction(trial["epsilon"])
        assert trial["mechanism"]["samples"] == 100 > trial["messages"]["samples"]


def ids(text: str) -> set[str]:
    """The descriptors that a configuration's streams publish within two years."""
    parsed, found = config.parse(text), set[Terms]()
    for stream in parsed.stream:
        schedule = config.schedule(stream, config.other_charges_per_day(parsed, stream))
        at_ms = parse_time("2027-01-01T00:00:00Z")
        for _ in range(730):
            at_ms = schedule.first_start_ms(at_ms)
            found.add(schedule.terms_at(at_ms))
            at_ms += DAY_MS
    return {describe_terms(terms).id for terms in found}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_names_the_descriptors_it_speaks_of(name: str) -> None:
    """Each descriptor that can be published is named by one trial; no mechanism is tried twice."""
    tried = found(name)["trials"]
    named = [(trial["stream"], id_) for trial in tried for id_ in trial["descriptors"]]
    assert len(named) == len(set(named))
    assert {id_ for _, id_ in named} >= ids(SETTINGS[name])
    kinds = {(trial["stream"], trial["epsilon"], trial["quantum"], trial["n"]) for trial in tried}
    assert len(kinds) == len(tried)


@pytest.mark.parametrize("name", ["appliance", "day", "two streams"])
def test_one_false_alarm_is_shared_by_all(name: str) -> None:
    """However many mechanisms there are, all audits together refuse what is right with 1e-6 at most."""
    alarms = [trial[part]["alarm"] for trial in found(name)["trials"] for part in ("mechanism", "messages")]
    assert sum(alarms) == pytest.approx(ALARM)


def test_what_it_says(run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise, measured loss, sample sizes, their power, the rate of false alarms, checks, the verdict."""
    monkeypatch.setattr(audit, "_CORE_SLOTS", 4000)
    code, out, err = run(written())
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    (id_,) = ids(written())
    assert lines[0] == f"Stream main, descriptor {id_}: 1 slot per window, on multiples of 1 W"
    assert lines[1] == "Promised: epsilon = 1/220 per W, level 1 at the radius of 220 W."
    assert f"{ALONE}: 20,000 windows, and as many for each side of each shift" in lines
    assert any(line.startswith(f"{SENT}: 160 windows") for line in lines)
    assert sum(line.startswith("Loss measured: at least ") for line in lines) == 2
    detects = "With a probability of 90%, it detects a loss 1.18 times the promise, and noise"
    assert any(line.startswith(detects) for line in lines)
    assert lines.count("False alarms: at most one in 2,000,000 audits.") == 2
    assert sum(line.startswith("ok ") for line in lines) == 34
    assert lines[-2] == "All 34 checks passed: no evidence against the promise."
    assert lines[-1] == "At most one audit in 1,000,000 rejects a correct configuration."
    assert 90 < max(map(len, out.splitlines())) <= 100
    monkeypatch.setenv("COLUMNS", "80")
    assert 70 < max(map(len, run(written())[1].splitlines())) <= 80


# What is false


class Wired:
    """A control as the core calls it: something for a window, then a draw for each slot."""

    def __init__(self, control: Control, draws: Control | None = None) -> None:
        self._control, self._draws = control, draws or control
        self._windows: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    def draw_noise_bound(self, bits: Bits) -> int:
        """Draw a window, and return its number in place of a bound."""
        control = self._draws
        self._windows.append(np.rint(control.noise(1, control.n, control.a, bits))[0].astype(int).tolist())
        return len(self._windows) - 1

    def draw_slot(self, window: int, _: Bits) -> int:
        """Return the noise of a window's next slot."""
        return self._windows[window].pop(0)

    def draw_noise_bounds(self, count: int, bits: Bits) -> list[int]:
        """Draw windows."""
        return [self.draw_noise_bound(bits) for _ in range(count)]

    def draw_slots(self, windows: list[int], bits: Bits) -> list[int]:
        """Return the noise of the first slot of each window."""
        return [self.draw_slot(window, bits) for window in windows]


def promising(control: Control) -> str:
    """The configuration that promises what a control does."""
    return written(
        window=WINDOW.format(n=control.n), privacy=f"level = 1\nradius = {1 / control.a}\nquantum = 1"
    )


def runs(monkeypatch: pytest.MonkeyPatch, mechanism: Any) -> None:
    """From now on a mechanism runs in place of the configured one."""

    def honest(terms: Terms) -> LInfLaplace:
        return LInfLaplace(terms.epsilon, terms.quantum, terms.n)

    monkeypatch.setattr(Terms, "mechanism", property(lambda _: mechanism))
    monkeypatch.setattr(Terms, "sd", property(lambda terms: sd(honest(terms))))
    monkeypatch.setattr(Terms, "half_width", lambda terms, coverage: half_width(honest(terms), coverage))


def failed(out: str) -> dict[str, set[str]]:
    """The checks that failed, by part."""
    (trial,) = json.loads(out)["trials"]
    parts = {name: trial[name] or {"checks": []} for name in ("mechanism", "messages")}
    return {name: {c["name"] for c in part["checks"] if not c["passed"]} for name, part in parts.items()}


@pytest.mark.parametrize("name", CAUGHT)
def test_every_control_is_refused(
    name: str, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of the configured mechanism each negative control ends with 3, by the checks named for it."""
    control, caught = CAUGHT[name].control, CAUGHT[name].caught
    runs(monkeypatch, Wired(control))
    monkeypatch.setattr(audit, "_CORE_N_MAX", 0)
    code, out, _ = run(promising(control), "--json", "--samples", str(SAMPLES))
    assert code == EXIT_VIOLATED == 3
    assert not json.loads(out)["holds"]
    assert failed(out)["mechanism"] >= set(caught)


def test_the_control_of_controls_passes(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The honest noise in the controls' place ends with 0, also through the core."""
    control = Control(2, controls.A, controls.honest)
    runs(monkeypatch, Wired(control))
    assert run(promising(control), "--samples", "100")[0] == 0


def test_the_agent_s_own_draws_are_tried(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mechanism that is right for whoever asks for windows, and wrong slot by slot, ends with 3."""
    control = Control(2, controls.A, controls.honest)
    runs(monkeypatch, Wired(control, Control(2, controls.A, controls.scalar)))
    code, out, _ = run(promising(control), "--json", "--samples", "200")
    assert code == EXIT_VIOLATED
    assert not failed(out)["mechanism"]
    assert "law: signs" in failed(out)["messages"]


def rounds_to_pairs(self: Window, index: int) -> int:
    """Wrong: twice floor(A / 2L)."""
    return REAL_CLOSE(self, index) // 2 * 2


def quarters(self: Window, noise: int, covered_ms: int, dither: int) -> None:
    """Wrong: a quarter of the noise."""
    REAL_DRAW(self, noise // 4, covered_ms, dither)


def half_up(self: Window, noise: int, covered_ms: int, dither: int) -> None:
    """Wrong: half a quantum for every dither, which rounds half up."""
    del dither
    REAL_DRAW(self, noise, covered_ms, self.terms.steps_per_quantum[self.draws] // 2)


def undithered(self: Window, noise: int, covered_ms: int, dither: int) -> None:
    """Wrong: no dither, which rounds down."""
    REAL_DRAW(self, noise, covered_ms, 0 * dither)


def of_a_millisecond(self: Window, noise: int, covered_ms: int, dither: int) -> None:
    """Wrong: a dither that forgets the slot's length."""
    REAL_DRAW(self, noise, covered_ms, dither // self.terms.step_ms)


def depends(self: Window, index: int) -> int:
    """Wrong: no noise on what is large."""
    value = REAL_CLOSE(self, index)
    return value // 1000 * 1000 if value > 1 << 30 else value


def again(self: Noise, terms_id: str, mechanism: LInfLaplace) -> tuple[int, int]:
    """Wrong: every second window has its predecessor's secret."""
    if not SECRETS:
        SECRETS.append(REAL_OPEN(self, terms_id, mechanism)[0])
        return SECRETS[0], mechanism.draw_slot(SECRETS[0], self.bits)
    radius = SECRETS.pop()
    return radius, mechanism.draw_slot(radius, self.bits)


REAL_DRAW, REAL_CLOSE, REAL_OPEN = Window.open_slot, Window.close_slot, Noise.draw_window
SECRETS: list[int] = []
FAULTS = {
    "rounding": (Window, "close_slot", rounds_to_pairs, "same noise for any window", 100),
    "half-up": (Window, "open_slot", half_up, "dither: rounding up", 300),
    "no dither": (Window, "open_slot", undithered, "dither: rounding up", 300),
    "a dither of the wrong unit": (Window, "open_slot", of_a_millisecond, "dither: rounding up", 300),
    "scale": (Window, "open_slot", quarters, "law: its scale", 300),
    "large values": (Window, "close_slot", depends, "same noise for any window", 100),
    "a secret used twice": (Noise, "draw_window", again, "law: windows in succession, from 0", 2000),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_core_are_seen(
    name: str, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the mechanism is right and the core is not, messages give it away: exit 3."""
    where, what, wrong, check, samples = FAULTS[name]
    monkeypatch.setattr(where, what, wrong)
    code, out, _ = run(written(), "--json", "--samples", str(samples))
    assert code == EXIT_VIOLATED
    assert not failed(out)["mechanism"]
    assert check in failed(out)["messages"]


def test_a_bias_is_seen_where_noise_is_small(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quantum as large as the radius passes; half-up kept on top of the dither is refused."""
    coarse = written(privacy="level = 1\nradius = 1\nquantum = 1")
    monkeypatch.setattr(audit, "_CORE_SLOTS", 25_000)
    assert run(coarse, "--samples", "1000")[0] == 0

    def on_top(self: Window, noise: int, covered_ms: int, dither: int) -> None:
        REAL_DRAW(self, noise, covered_ms, dither + self.terms.steps_per_quantum[self.draws] // 2)

    monkeypatch.setattr(Window, "open_slot", on_top)
    code, out, _ = run(coarse, "--json", "--samples", "1000")
    assert code == EXIT_VIOLATED
    assert "dither: at fractions" in failed(out)["messages"]


def test_a_violation_is_said(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text marks what failed, and ends with the verdict."""
    monkeypatch.setattr(Window, "close_slot", rounds_to_pairs)
    _, out, _ = run(written(), "--samples", "200")
    assert "    FAILED  same noise for any window" in out
    assert "    FAILED  dither: rounding up" in out
    assert "of 34 checks failed. Stop the agent: release nothing." in out


# How much is tried


@pytest.mark.parametrize(("n", "messages"), [(1, True), (48, True), (1440, True), (8640, False)])
def test_windows_are_fewer_where_they_are_long(
    n: int, messages: bool, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default the draws take seconds; windows that are too long to send are reported as such."""
    asked: list[tuple[int, int]] = []

    def recorded(mechanism: Any, *, samples: int, false_alarm: float, bits: Bits | None) -> Audit:
        del bits
        asked.append((mechanism.n, samples))
        return Audit(mechanism.loss(mechanism.quantum), 0, 1, 1, samples, false_alarm, ())

    monkeypatch.setattr(audit, "audit", recorded)
    _, out, _ = run(written(window=f"length = '24h'\nblocks = {n}"))
    assert [slots for slots, _ in asked] == [n] * (1 + messages)
    assert 13 * n * asked[0][1] <= 10**8
    assert all(25 * n * few <= 72_000 for _, few in asked[1:])
    assert (f"{SENT}: not tested, because windows of 8,640 slots take too long\n" in out) != messages


@pytest.mark.parametrize(("mechanisms", "messages"), [(1, True), (2, False)])
def test_many_mechanisms_are_not_blamed_on_their_slots(
    mechanisms: int, messages: bool, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is short enough alone is too long beside others: the number of mechanisms is stated."""

    def instant(mechanism: Any, *, samples: int, false_alarm: float, bits: Bits | None) -> Audit:
        del bits
        return Audit(mechanism.loss(mechanism.quantum), 0, 1, 1, samples, false_alarm, ())

    monkeypatch.setattr(audit, "audit", instant)
    window = "[stream.window]\nlength = '24h'\nblocks = 1440"
    names = [(f"s{i}", f"a{i}/{{meter}}", f'"b{i}/{{meter}}"\n{window}') for i in range(mechanisms)]
    _, out, _ = run(streams(*names))
    reason = f"{SENT}: not tested, because windows of 1,440 slots take too long with 2 mechanisms to test"
    assert " ".join(out.split()).count(reason) == (0 if messages else mechanisms)
    assert out.count("not tested") == (0 if messages else mechanisms)


# What cannot be


def test_without_scipy_it_says_what_to_install(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing scipy ends with 1 and the extra that has it; a bad configuration is refused first."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert run(written()) == (
        EXIT_CRASH,
        "",
        "meteragent: an audit needs scipy: pip install '.[analysis]' in a clone of the repository\n",
    )
    assert run(written(privacy="radius = 0.5"))[0] == EXIT_CONFIG


@pytest.mark.parametrize("samples", ["99", "-1", "many", "1e4", "٣٠٠"])
def test_too_few_samples_are_refused(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer than 100 windows, which would show nothing, and texts that are not numbers are refused."""
    with pytest.raises(SystemExit) as left:
        main(["audit", "home.toml", "--samples", samples])
    assert left.value.code == 2
    assert "a whole number of at least 100" in capsys.readouterr().err
