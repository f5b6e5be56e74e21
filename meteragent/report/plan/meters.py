"""The meters whose readings are fine enough for a setting, by the names of their profiles."""

from collections.abc import Hashable

from meteragent import config
from meteragent.config.terms import terms
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain import loads
from meteragent.domain.units import Kind


def judge_meters(setting: str) -> dict[Kind, dict[str, list[str]]]:
    """Return profiles by their kind of readings and by how well they suit `setting`, which lacks a source.

    Readings are "fine" enough, too "coarse" or, until a configuration states their period or step, "unknown".
    Profiles that count pulses are left out, because only a configuration states the energy of a pulse.
    """
    verdicts: dict[Hashable, str] = {}
    names: dict[Kind, dict[str, list[str]]] = {kind: {} for kind in Kind}
    for name, profile in PROFILES.items():
        for kind in Kind:
            quantity = profile.find_quantity(kind, None)
            if quantity is None or quantity.is_count:
                continue
            key = _fineness(profile, quantity)
            if key not in verdicts:
                verdicts[key] = _verdict(_source_text(profile, quantity) + setting)
            names[kind].setdefault(verdicts[key], []).append(name)
    return names


def _fineness(profile: Profile, quantity: Quantity) -> Hashable:
    """Return the facts about a quantity that decide whether its readings are fine enough."""
    if quantity.kind is Kind.POWER:
        return profile.period_ms, profile.hold_ms, profile.dead_band_w, profile.knows_dead_band
    return quantity.kind, quantity.step_wh, quantity.counters, quantity.interval_ms


def _source_text(profile: Profile, quantity: Quantity) -> str:
    unit = "W" if quantity.kind is Kind.POWER else "Wh"
    keys = {"topic": "m/p", "meter": "home", "profile": profile.name, "kind": quantity.kind, "unit": unit}
    keys |= {"id": "1"} if profile.needs_id else {}
    if quantity.kind is Kind.INTERVAL_ENERGY and quantity.interval_ms is None:
        keys["interval"] = "15min"
    return "".join(f'source.{key} = "{value}"\n' for key, value in keys.items())


def _verdict(text: str) -> str:
    settings = config.parse_or_none(text)
    is_unknown = settings is not None and loads.unknown_keys(terms(settings.stream[0]))
    return "coarse" if settings is None else "unknown" if is_unknown else "fine"
