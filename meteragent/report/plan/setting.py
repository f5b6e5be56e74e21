"""Settings: a configuration to paste, its noise, and the search for a setting that hides an event."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from meteragent import config
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import format_duration
from meteragent.domain.presets import PRESETS
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import success_bound
from meteragent.privacy.floor import WindowFloor
from meteragent.report.event import EVENTS, Event, window_distances
from meteragent.report.guarantee import success_limit, whole_percent
from meteragent.report.plan.ask import ENERGY_MAX_WH, Change, Share

_SINK = 'sink.topic = "private/{meter}/power"\n'
TOML_HEAD = f"""\
source.topic = "meters/{{meter}}/power"    # where the readings of your meters arrive
source.kind = "power"
source.unit = "W"
{_SINK}"""
_ZONE = '    # the time zone of your homes, such as "Europe/Amsterdam"'
_FIGURES = 3
"""The number of significant figures of an energy to hide."""
_FINE = 50
"""Without a preset, a quantum is at most radius / _FINE (but at least `_FINEST_W`), so rounding usually adds
at most 2% to the distance of an event."""
_ALIKE = 1.02
"""A gain over guessing may exceed its limit by this factor if both are the same in whole per cent."""
_FINEST_W = Fraction(1, 10**6)
_SLOTS = (2, 3, 4, 6, 8, 12, 16, 24, 48)
_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 24, 48)
"""Possible numbers of blocks in a local day; each divides 23, 24 and 25 hours."""


@dataclass(frozen=True)
class Setting:
    """A share in windows of `slots` numbers; each number hides `hide_wh`, and each window has `level`."""

    share: Share
    slots: int
    hide_wh: Fraction
    level: Fraction
    timezone: str = "UTC"

    @cached_property
    def quantum_w(self) -> Fraction:
        """The preset's quantum or, without a preset, that of the share or a finer power of ten (`_FINE`)."""
        if self.preset is not None:
            return PRESETS[self.preset].quantum
        finest = Fraction(10) ** math.floor(math.log10(self.hide_wh / self._hours / _FINE))
        return max(min(finest, self.share.quantum_w), _FINEST_W)

    @property
    def _hours(self) -> Fraction:
        """The hours that one number covers: those of a block for curves, otherwise the share's."""
        return hours_per_number(self.share, self.slots)

    @cached_property
    def radius_w(self) -> Fraction:
        """The energy hidden over a slot as a power, rounded up to the quantum (DESIGN 2)."""
        return -(-self.hide_wh / self._hours // self.quantum_w) * self.quantum_w

    @cached_property
    def floor_w(self) -> float:
        """The smallest standard deviation of real-valued noise that keeps this promise (THEORY 1.4)."""
        return math.sqrt(WindowFloor(self.slots, self.terms.epsilon).mean_square)

    def error_w(self, homes: int = 1) -> float:
        """Return one standard deviation of the mean over homes, as mean power over a number's time."""
        return self.terms.sd / math.sqrt(homes)

    @cached_property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        shape = _terms_of(self.share, self.slots, self.timezone)
        return replace(
            shape, level=self.level, radius=self.radius_w, quantum_u=int(self.quantum_w * 10**6), preset=None
        )

    @cached_property
    def preset(self) -> str | None:
        """The preset with exactly this grid, hidden energy and level; None if no preset has them."""
        share = self.share
        length = share.unit or share.step_ms * self.slots
        numbers = (length, self.slots, share.space, self.hide_wh, self.level)
        for name, preset in PRESETS.items():
            if (preset.length, preset.blocks, preset.space, preset.hide_wh, preset.level) == numbers:
                return name
        return None

    @cached_property
    def text(self) -> str:
        """The configuration to paste."""
        zone = {} if self.share.unit is None else {"window.timezone": f'"{self.timezone}"'}
        if self.timezone == "UTC" and zone:
            zone["window.timezone"] += _ZONE
        if self.preset is not None:
            return configuration_text(zone | {"privacy.preset": f'"{self.preset}"'})
        hide = (
            f"{exact_text(self.hide_wh / 1000)}kWh"
            if self.hide_wh >= 1000
            else f"{exact_text(self.hide_wh)}Wh"
        )
        privacy = {"privacy.hide": f'"{hide}"', "privacy.level": level_text(self.level)}
        quantum = {"privacy.quantum": exact_text(self.quantum_w)}
        return configuration_text(_window_keys(self.share, self.slots) | zone | privacy | quantum)

    @property
    def without_source(self) -> str:
        """The configuration to paste, without its source."""
        return _SINK + self.text.removeprefix(TOML_HEAD)

    @property
    def stream(self) -> config.Stream:
        """The stream of the configuration."""
        return config.parse(self.text).stream[0]


def hours_per_number(share: Share, slots: int) -> Fraction:
    """Return the hours that one of a window's numbers covers."""
    return share.hours if share.blocks else share.hours / slots


def configuration_text(keys: dict[str, str]) -> str:
    """Return a configuration to paste that has these keys."""
    return TOML_HEAD + "".join(f"{key} = {value}\n" for key, value in keys.items())


def level_text(level: Fraction) -> str:
    """Return a level as a configuration writes it."""
    return f'"{level}"' if level.denominator > 1 else str(level)


def _window_keys(share: Share, slots: int) -> dict[str, str]:
    """Return the keys for the grid and the space."""
    if share.unit is None:
        keys = {"window.length": f'"{format_duration(share.step_ms * slots)}"'}
        return keys | ({"window.step": f'"{format_duration(share.step_ms)}"'} if slots > 1 else {})
    keys = {"window.length": f'"{share.unit}"'}
    if not share.is_one:
        keys |= {"window.blocks": str(slots), "privacy.space": f'"{share.space}"'}
    return keys


@lru_cache(maxsize=256)
def _terms_of(share: Share, slots: int, timezone: str) -> Terms:
    """Return the terms of a share's windows, with the noise of the default preset."""
    zone = {} if share.unit is None else {"window.timezone": f'"{timezone}"'}
    return config.terms(config.parse(configuration_text(_window_keys(share, slots) | zone)).stream[0])


def last_place_wh(wh: float) -> Fraction:
    """Return the place value of the last digit of an energy with three significant figures."""
    return Fraction(10) ** (math.floor(math.log10(wh) + 1e-12) - _FIGURES + 1)


# Settings that hide an event --------------------------------------------------------------------------------


def aligned_distances(event: Event, setting: Setting) -> tuple[tuple[Fraction, ...], ...]:
    """Return the distances (in W, largest first) by which an event changes windows, for each alignment."""
    return _alignments(event, setting.share, setting.slots, setting.timezone)


@lru_cache(maxsize=256)
def _alignments(event: Event, share: Share, slots: int, timezone: str) -> tuple[tuple[Fraction, ...], ...]:
    return tuple(sorted(window_distances(event, _terms_of(share, slots, timezone)), key=sum, reverse=True))


def hides(setting: Setting, event: Event, slack: float = 1.0) -> bool:
    """Return whether an event is at least as hard to detect as a change by the radius in one window.

    The answer holds wherever the event lies on the grid, and however many windows it touches. The event's
    gain over guessing may be larger by the factor `slack`.
    """
    noise = setting.terms.mechanism
    limit = 0.5 + slack * (success_bound(noise, (setting.radius_w,)) - 0.5)
    return all(
        success_bound(noise, distances_w) <= limit for distances_w in aligned_distances(event, setting)
    )


def radius_percent(setting: Setting) -> int:
    """Return an attacker's success limit for a change by the radius, in per cent, rounded up."""
    return whole_percent(success_bound(setting.terms.mechanism, (setting.radius_w,)))


def is_covered(setting: Setting, event: Event) -> bool:
    """Return whether an event is hidden, with limits rounded up to whole per cent as in `check`."""
    if not hides(setting, event, _ALIKE):
        return False
    return whole_percent(success_limit(event, setting.terms, 1)) <= radius_percent(setting)


def covered_events(setting: Setting) -> list[Event]:
    """Return the public events that a setting hides."""
    return [event for event in EVENTS if is_covered(setting, event)]


def odds_level(setting: Setting, event: Event) -> float:
    """Return the sum of an event's levels in all windows that it touches, and the level of one quantum."""
    noise = setting.terms.mechanism
    losses = (sum(map(noise.loss, distances_w)) for distances_w in aligned_distances(event, setting))
    return float(max(losses) + noise.a)


def least_error_setting(hide: Change, share: Share, level: Fraction, timezone: str) -> Setting:
    """Find the setting with the least error that hides `hide`; prefer a preset with no more hidden energy."""
    best = min(candidate_settings(hide, share, level, timezone), key=Setting.error_w)
    for preset in PRESETS.values():
        variant = replace(best, hide_wh=preset.hide_wh)
        is_smaller = variant.preset and variant.hide_wh <= best.hide_wh
        if hide.event and is_smaller and is_covered(variant, hide.event):
            return variant
    return best


@lru_cache(maxsize=256)
def candidate_settings(hide: Change, share: Share, level: Fraction, timezone: str) -> tuple[Setting, ...]:
    """Find, for each number of slots to try, the setting with the least energy that hides `hide`.

    A change of unknown shape, or an event no longer than a slot, may lie within one slot, so more slots would
    only add noise. A longer event changes the slots of a window at most by its power. A number of slots is
    left out if its error, even with that power as the radius, is not below the errors of fewer slots.
    """
    if not share.blocks:
        return (_advised_setting(hide, share, level, timezone),)
    event, start = hide.event, Setting(share, share.blocks, hide.energy_wh, level, timezone)
    settings = [least_energy_setting(hide, start)]
    if event is None or share.unit is not None or event.duration_ms <= share.step_ms:
        return tuple(settings)
    power_wh = event.power_w * share.hours
    for n in _SLOTS:
        if n * share.step_ms > DAY_MS:
            break
        # The event fills at least one slot, so the radius must be at least the event's power.
        if replace(start, slots=n, hide_wh=power_wh).error_w() < min(map(Setting.error_w, settings)):
            settings.append(least_energy_setting(hide, replace(start, slots=n)))
    return tuple(settings)


def _advised_setting(hide: Change, share: Share, level: Fraction, timezone: str) -> Setting:
    """Choose the number of blocks of a curve that minimises a bound on its error, for a day with all events.

    Each event raises and lowers the power once, so the bound for k blocks is (all rises and falls) / (2 k)
    plus the noise's mean error (THEORY 4.2). Choosing k from a private trace would be a release.
    """
    variation_w = sum(2 * event.power_w for event in EVENTS)
    bounds = []
    for count in _BLOCKS:
        day = least_energy_setting(hide, Setting(share, count, hide.energy_wh, level, timezone))
        noise_w = WindowFloor(count, day.terms.epsilon).mean_absolute
        bounds.append((Fraction(variation_w, 2 * count) + noise_w, count, day))
    return min(bounds)[2]


def least_energy_setting(hide: Change, setting: Setting) -> Setting:
    """Find the setting with the least energy that hides `hide`, with the windows of `setting`."""
    if hide.event is None:
        return setting
    hours = setting.terms.step_ms / Fraction(HOUR_MS)
    shifts = aligned_distances(hide.event, setting)
    lowest = max(map(max, shifts)) * hours
    step = last_place_wh(float(lowest))
    low, high = -(-lowest // step) - 1, -(-sum(shifts[0]) * hours // step)
    while not hides(replace(setting, hide_wh=high * step), hide.event):
        low, high = high, high + max(1, high // 8)
    while high - low > 1:
        middle = (low + high) // 2
        is_hidden = hides(replace(setting, hide_wh=middle * step), hide.event)
        low, high = (low, middle) if is_hidden else (middle, high)
    return replace(setting, hide_wh=high * step)


def most_hiding_setting(
    share: Share, level: Fraction, timezone: str, error_w: float, slots: int = 0
) -> Setting | None:
    """Find the setting that hides most energy within an error of `error_w` for a home, if there is one."""
    n = slots or share.blocks or 1
    scale_w = error_w * float(level) / math.sqrt((n + 1) * (n + 2) / 3)
    if scale_w < 1e-3:
        return None
    start = Setting(share, n, Fraction(0), level, timezone)
    limit_wh = scale_w * float(hours_per_number(share, n))
    hide_wh = largest_energy(limit_wh, error_w, lambda hide_wh: replace(start, hide_wh=hide_wh).error_w())
    return None if hide_wh is None else replace(start, hide_wh=hide_wh)


def largest_energy(limit_wh: float, goal: float, error_of: Callable[[Fraction], float]) -> Fraction | None:
    """Return the largest energy, of three figures, whose error is at most `goal`, if there is one.

    The search goes down from a little more than `limit_wh`, and tries no more than `ENERGY_MAX_WH`.
    """
    limit_wh = min(limit_wh, ENERGY_MAX_WH)
    step = last_place_wh(limit_wh)
    steps = min(math.floor(limit_wh / float(step)) + 2, int(ENERGY_MAX_WH / step))
    return next((n * step for n in range(steps, 0, -1) if error_of(n * step) <= goal), None)
