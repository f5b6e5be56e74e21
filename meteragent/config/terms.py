"""What people write (level, hide, watts) as what the mechanism needs (epsilon, radius, lattice)."""

from fractions import Fraction

from meteragent.config.model import PRESETS, Source, Stream
from meteragent.decode import Decoder
from meteragent.decode import json as json_profile
from meteragent.decode import number as number_profile
from meteragent.grid import HOUR_MS
from meteragent.release import MICRO, UNIT_FACTOR, Kind, Terms


def decoder(source: Source) -> Decoder:
    """The decoder of a source's profile."""
    if source.profile == "number":
        return number_profile.decode
    return json_profile.decoder(source.value or "power", source.time)


def length_ms(stream: Stream) -> int:
    """The window's length: as written, else the preset's."""
    return stream.window.length or PRESETS[stream.privacy.preset].length


def step_ms(stream: Stream) -> int:
    """The slot's length: as written, else the whole window."""
    return stream.window.step or length_ms(stream)


def _per_w(stream: Stream, duration_ms: int) -> Fraction:
    """How many of the stream's unit one watt is, over a duration where the unit is an energy."""
    source = stream.source
    hours = Fraction(duration_ms, HOUR_MS) if source.kind is Kind.INTERVAL_ENERGY else 1
    return Fraction(hours) / UNIT_FACTOR[source.unit]


def quantum(stream: Stream) -> Fraction:
    """The lattice of slot values in the unit: as written, else the preset's, converted exactly."""
    written = stream.privacy.quantum
    default_w = PRESETS[stream.privacy.preset].quantum_w
    return written if written is not None else default_w * _per_w(stream, step_ms(stream))


def radius(stream: Stream) -> Fraction:
    """The radius in the unit: as written, or hide / step rounded up to the lattice (DESIGN 2)."""
    privacy = stream.privacy
    if privacy.radius is not None:
        return privacy.radius
    hide_wh = privacy.hide or PRESETS[privacy.preset].hide_wh
    power_w = hide_wh * HOUR_MS / step_ms(stream)
    lattice = quantum(stream)
    return -(-power_w * _per_w(stream, step_ms(stream)) // lattice) * lattice


def level(stream: Stream) -> Fraction:
    """The level: as written, else the preset's."""
    return stream.privacy.level or PRESETS[stream.privacy.preset].level


def terms(stream: Stream) -> Terms:
    """The terms under which the stream's windows are released."""
    source, window = stream.source, stream.window
    energy = source.kind is Kind.INTERVAL_ENERGY
    interval_ms = source.interval or 0 if energy else 0
    per_w = _per_w(stream, interval_ms)
    return Terms(
        kind=source.kind,
        unit=source.unit,
        clock=window.clock,
        length_ms=length_ms(stream),
        step_ms=step_ms(stream),
        lateness_ms=window.lateness,
        level=level(stream),
        radius=radius(stream),
        quantum_u=int(quantum(stream) * MICRO),
        hold_ms=0 if energy else source.hold,
        interval_ms=interval_ms,
        gap_u=_micro(window.gap),
        low_u=_micro(window.range[0] * per_w),
        high_u=_micro(window.range[1] * per_w),
        preset=_preset_name(stream),
    )


def _preset_name(stream: Stream) -> str | None:
    """The preset's name, if no number beside it says something else."""
    plain = stream.privacy.model_copy(update={"level": None, "hide": None, "radius": None, "quantum": None})
    window = stream.window.model_copy(update={"length": None, "step": None})
    as_named = stream.model_copy(update={"privacy": plain, "window": window})
    same = all(number(stream) == number(as_named) for number in (length_ms, step_ms, level, radius, quantum))
    return stream.privacy.preset if same else None


def budget(stream: Stream) -> Fraction | None:
    """The budget as epsilon in 1/W per period; None without one."""
    if stream.privacy.budget is None:
        return None
    return stream.privacy.budget.level / terms(stream).radius_w


def _micro(value: Fraction) -> int:
    return (2 * value * MICRO + 1) // 2


def sink_url(stream: Stream) -> str:
    """The sink's broker: as written, else the source's."""
    return stream.sink.url or stream.source.url
