"""Green Button: an Atom feed of ESPI resources (NAESB REQ.21), for writing and reading.

    UsagePoint (a meter) <- MeterReading (a stream of values) <- IntervalBlock (the values of a UTC day)
                                     | related
                                ReadingType (unit, power of ten, length of intervals)

Each value is the mean power or the energy of an interval: a whole number, times a power of ten, of W (code
38) or Wh (code 72). ESPI has no quality for "estimated" alone, because its codes 8 and 9 name estimation
methods that are not used here. A released value has code 11, "derived", which means that it was calculated
from measurements. ESPI has no element for the standard deviation, so the ReadingType's title states it, where
people and `read` find it.
"""

import re
import uuid
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Final, NamedTuple

from meteragent.domain.errors import FormatError
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.identity import holds_name
from meteragent.domain.units import DAY_MS
from meteragent.formats.entry import Entry, Quality, require_intervals
from meteragent.formats.xml import child, document, parse

ATOM: Final = "{http://www.w3.org/2005/Atom}"
ESPI: Final = "{http://naesb.org/espi}"

_POWER, _ENERGY = 38, 72
_UOM: Final = {_POWER: "W", _ENERGY: "Wh"}
_DERIVED = 11
_MEASURED: Final = {0, 7, 17, 18, 19}
"""Qualities of a measured value: valid, manually edited, validated, verified, and revenue quality."""
_DELTA, _INDICATING = 4, 6
_AVERAGE, _NORMAL = 2, 12
_KIND_ENERGY, _KIND_POWER = 12, 37
_ELECTRICITY = 1
_FORWARD: Final = {0, 1, 4}
"""Accepted flow directions: not applicable, consumption, and net."""
_POWERS: Final = (0, -3, -6)
"""The exponents of ten that are written, in order of preference."""
_POWER_MAX: Final = 12
"""The largest absolute value of an exponent of ten that is read: from pico to tera."""
_INT48_MAX: Final = 2**47 - 1
_START_S: Final = parse_time("1990-01-01T00:00:00Z") // 1000
_END_S: Final = parse_time("2101-01-01T00:00:00Z") // 1000
_ROOT: Final = "/espi/1_1/resource"
_NAMESPACE: Final = uuid.UUID("6f2d2b8e-54a5-4f0e-9d0b-6d0f3a3f6c52")
"""The namespace of the feed's ids, so that a repeated conversion yields the same ids."""
_TITLE = re.compile(
    r"estimated, standard deviation (\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?) Wh?, descriptor (\S*)", re.ASCII
)

ET.register_namespace("atom", ATOM.strip("{}"))
ET.register_namespace("espi", ESPI.strip("{}"))


class Form(NamedTuple):
    """The properties that all values of a MeterReading share."""

    is_energy: bool
    length_s: int
    quality: Quality
    sd: float | None
    d: str

    @classmethod
    def of(cls, entry: Entry) -> "Form":
        """Return the form of an entry."""
        length_s = (entry.end_ms - entry.start_ms) // 1000
        return cls(entry.is_energy, length_s, entry.quality, entry.base_sd, entry.d)

    @property
    def title(self) -> str:
        """The title of the ReadingType."""
        unit = "Wh" if self.is_energy else "W"
        if self.sd is None:
            return f"{self.quality}"
        return f"{self.quality}, standard deviation {self.sd!r} {unit}, descriptor {self.d}"


def write(entries: Iterable[Entry], now_ms: int) -> bytes:
    """Return entries as a feed. Raises FormatError if ESPI cannot carry one of them."""
    checked_entries = require_intervals(entries, "green-button")
    feed = ET.Element(f"{ATOM}feed")
    _identify(feed, _ROOT, "Green Button usage", now_ms)
    groups: defaultdict[str, defaultdict[Form, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in checked_entries:
        groups[entry.meter][Form.of(entry)].append(entry)
    distinct_forms = dict.fromkeys(form for forms in groups.values() for form in forms)
    powers = {form: _power_of(groups, form) for form in distinct_forms}
    types = {form: f"{_ROOT}/ReadingType/{number}" for number, form in enumerate(powers, start=1)}
    for number, (meter, forms) in enumerate(groups.items(), start=1):
        place = f"{_ROOT}/UsagePoint/{number}"
        point = _resource(feed, place, f"{_ROOT}/UsagePoint", [f"{place}/MeterReading"], meter, now_ms)
        child(child(child(point, f"{ESPI}UsagePoint"), f"{ESPI}ServiceCategory"), f"{ESPI}kind", "0")
        for index, (form, values) in enumerate(forms.items(), start=1):
            _stream(feed, f"{place}/MeterReading/{index}", types[form], values, powers[form], now_ms)
    for form, place in types.items():
        _reading_type(feed, place, form, powers[form], now_ms)
    return document(feed)


def _power_of(groups: dict[str, defaultdict[Form, list[Entry]]], form: Form) -> int:
    """Return the largest exponent in `_POWERS` with which all values of a form are whole numbers.

    Raises FormatError if there is none, or if a value then has more than 48 bits.
    """
    values = [entry.base_value for forms in groups.values() for entry in forms.get(form, ())]
    for power in _POWERS:
        quotients = [value / Fraction(10) ** power for value in values]
        if all(value.denominator == 1 for value in quotients):
            if max(map(abs, quotients)) > _INT48_MAX:
                raise FormatError("green-button cannot carry a value of more than 48 bits: use csv")
            return power
    raise FormatError("green-button cannot carry a value with more than six decimal places in W or Wh")


def _stream(
    feed: ET.Element, place: str, reading_type: str, entries: list[Entry], power: int, now_ms: int
) -> None:
    """Append a MeterReading and its blocks."""
    blocks = f"{place}/IntervalBlock"
    content = _resource(feed, place, place.rpartition("/")[0], [blocks, reading_type], "", now_ms)
    child(content, f"{ESPI}MeterReading")
    for day, group in groupby(entries, lambda entry: entry.start_ms // DAY_MS):
        values = list(group)
        block = child(_resource(feed, f"{blocks}/{day}", blocks, [], "", now_ms), f"{ESPI}IntervalBlock")
        _period(block, "interval", values[0].start_ms, values[-1].end_ms)
        for entry in values:
            reading = child(block, f"{ESPI}IntervalReading")
            code = _DERIVED if entry.quality == "estimated" else 0
            child(child(reading, f"{ESPI}ReadingQuality"), f"{ESPI}quality", str(code))
            _period(reading, "timePeriod", entry.start_ms, entry.end_ms)
            child(reading, f"{ESPI}value", str(entry.base_value / Fraction(10) ** power))


def _reading_type(feed: ET.Element, place: str, form: Form, power: int, now_ms: int) -> None:
    content = _resource(feed, place, place.rpartition("/")[0], [], form.title, now_ms)
    element = child(content, f"{ESPI}ReadingType")
    numbers = {
        "accumulationBehaviour": _DELTA if form.is_energy else _INDICATING,
        "commodity": _ELECTRICITY,
        "dataQualifier": _NORMAL if form.is_energy else _AVERAGE,
        "defaultQuality": _DERIVED if form.quality == "estimated" else 0,
        "intervalLength": form.length_s,
        "kind": _KIND_ENERGY if form.is_energy else _KIND_POWER,
        "powerOfTenMultiplier": power,
        "uom": _ENERGY if form.is_energy else _POWER,
    }
    for name, number in numbers.items():
        child(element, f"{ESPI}{name}", str(number))


def _period(parent: ET.Element, name: str, start_ms: int, end_ms: int) -> None:
    element = child(parent, f"{ESPI}{name}")
    child(element, f"{ESPI}duration", str((end_ms - start_ms) // 1000))
    child(element, f"{ESPI}start", str(start_ms // 1000))


def _resource(
    feed: ET.Element, place: str, parent_place: str, related: list[str], title: str, now_ms: int
) -> ET.Element:
    """Append an entry to the feed, and return the entry's content element."""
    element = child(feed, f"{ATOM}entry")
    _identify(element, place, title, now_ms, parent_place)
    for related_place in related:
        child(element, f"{ATOM}link", rel="related", href=related_place)
    content = child(element, f"{ATOM}content")
    child(element, f"{ATOM}published", iso_time(now_ms))
    return content


def _identify(
    element: ET.Element, place: str, title: str, now_ms: int, parent_place: str | None = None
) -> None:
    child(element, f"{ATOM}id", f"urn:uuid:{uuid.uuid5(_NAMESPACE, place)}")
    child(element, f"{ATOM}title", title)
    child(element, f"{ATOM}updated", iso_time(now_ms))
    child(element, f"{ATOM}link", rel="self", href=place)
    if parent_place is not None:
        child(element, f"{ATOM}link", rel="up", href=parent_place)


class _Type(NamedTuple):
    """The parts of a ReadingType that `read` needs."""

    unit: str
    scale: Fraction
    quality: int | None
    sd: float | None
    d: str


def read(content: bytes) -> Iterator[Entry]:
    """Yield a feed's entries, in W and Wh. Raises FormatError for other quantities or an invalid feed."""
    feed = parse(content)
    meters = _Meters(dict(_resources(feed, "UsagePoint")))
    readings = dict(_resources(feed, "MeterReading"))
    streams = {link: place for place in reversed(readings) for link in _links(readings[place], "related")}
    meter_and_type: dict[str, tuple[str, _Type]] = {}
    types = {place: _type(resource) for place, resource in _resources(feed, "ReadingType")}
    if not types:
        raise FormatError("no ReadingType: this is not a Green Button file, or its units are missing")
    for place, block in _resources(feed, "IntervalBlock"):
        stream = _parent_place(block, place, "IntervalBlock")
        stream = stream if stream in readings else streams.get(stream, stream)
        if stream not in meter_and_type:
            meter_and_type[stream] = _stream_of(readings, stream, types, meters)
        for element in block.iter(f"{ESPI}IntervalReading"):
            yield _entry(element, *meter_and_type[stream])


def _stream_of(
    readings: dict[str, ET.Element], place: str, types: dict[str, _Type], meters: "_Meters"
) -> tuple[str, _Type]:
    """Return the meter and the ReadingType of a MeterReading. Raises FormatError if one is missing."""
    reading = readings.get(place)
    if reading is None:
        raise FormatError("an IntervalBlock belongs to no MeterReading of the file")
    names = [name for name in _links(reading, "related") if name in types]
    if len(names) != 1:
        raise FormatError("a MeterReading does not have exactly one ReadingType in the file")
    return meters.name(_parent_place(reading, place, "MeterReading")), types[names[0]]


def _resources(feed: ET.Element, kind: str) -> Iterator[tuple[str, ET.Element]]:
    """Yield the place and element of each feed entry that holds this kind of resource."""
    for element in feed.iter(f"{ATOM}entry"):
        if element.find(f"{ATOM}content/{ESPI}{kind}") is not None:
            yield next(iter(_links(element, "self")), ""), element


def _links(element: ET.Element, relation: str) -> list[str]:
    return [link.get("href", "") for link in element.iter(f"{ATOM}link") if link.get("rel") == relation]


def _parent_place(element: ET.Element, place: str, kind: str) -> str:
    """Return the place of a resource's parent."""
    parent_place = next(iter(_links(element, "up")), place.rpartition("/")[0])
    return parent_place.removesuffix(f"/{kind}")


class _Meters:
    """The names of meters: a UsagePoint's title or, if that is not unique, the last part of its place."""

    def __init__(self, points: dict[str, ET.Element]) -> None:
        self._titles = {
            place: (point.findtext(f"{ATOM}title") or "").strip() for place, point in points.items()
        }
        self._counts = Counter(self._titles.values())
        self._places: dict[str, str] = {}

    def name(self, place: str) -> str:
        """Return the name of the meter at a place. Raises FormatError if it has none of its own."""
        title = self._titles.get(place, "")
        name = title if title and self._counts[title] == 1 else place.rpartition("/")[2]
        if not holds_name(name):
            raise FormatError("a UsagePoint has no name")
        if self._places.setdefault(name, place) != place:
            places = f"{self._places[name]} and {place}"
            raise FormatError(
                f"two UsagePoints have the name {name!r}: {places}: give each a title of its own"
            )
        return name


def _type(resource: ET.Element) -> _Type:
    """Parse a ReadingType. Raises FormatError if its values cannot become entries."""
    element = next(resource.iter(f"{ESPI}ReadingType"))
    uom = _integer(element, "uom")
    if uom not in _UOM:
        raise FormatError(f"uom {uom}: expected 38 (W) or 72 (Wh)")
    behaviour = _integer(element, "accumulationBehaviour", _DELTA)
    if behaviour not in {0, _DELTA, _INDICATING}:
        raise FormatError(f"accumulationBehaviour {behaviour}: expected values of intervals (4)")
    if _integer(element, "flowDirection", 1) not in _FORWARD:
        raise FormatError("flowDirection: expected consumption (1) or net (4): remove the other readings")
    if _integer(element, "commodity", _ELECTRICITY) not in {0, _ELECTRICITY}:
        raise FormatError("commodity: expected electricity (1)")
    power = _integer(element, "powerOfTenMultiplier", 0)
    if abs(power) > _POWER_MAX:
        raise FormatError(f"powerOfTenMultiplier {power}: expected -{_POWER_MAX} to {_POWER_MAX}")
    scale = Fraction(10) ** power
    title = _TITLE.fullmatch((resource.findtext(f"{ATOM}title") or "").strip())
    quality = _integer(element, "defaultQuality", 0)
    if title is None:
        return _Type(_UOM[uom], scale, quality, None, "")
    return _Type(_UOM[uom], scale, quality, float(title[1]), title[2])


def _entry(element: ET.Element, meter: str, form: _Type) -> Entry:
    """Return the entry of an IntervalReading. Raises FormatError if the element is incomplete or wrong."""
    period = element.find(f"{ESPI}timePeriod")
    if period is None:
        raise FormatError("an IntervalReading has no timePeriod")
    start_s, duration_s = _integer(period, "start"), _integer(period, "duration")
    if duration_s <= 0:
        raise FormatError("an IntervalReading has no duration")
    if not _START_S <= start_s < start_s + duration_s <= _END_S:
        raise FormatError("start: expected seconds since 1970, of the years 1990 to 2100")
    codes = [_integer(quality, "quality") for quality in element.iter(f"{ESPI}ReadingQuality")]
    is_measured = all(code in _MEASURED for code in codes or [form.quality or 0])
    value = _integer(element, "value") * form.scale
    quality: Quality = "measured" if is_measured else "estimated"
    times = start_s * 1000, (start_s + duration_s) * 1000
    return Entry(meter, *times, value, form.unit, quality, form.sd, "", form.d)


def _integer(element: ET.Element, name: str, default: int | None = None) -> int:
    """Return the whole number in a child element. Raises FormatError if there is none and no default."""
    text = element.findtext(f"{ESPI}{name}")
    if text is None and default is not None:
        return default
    if text is None or re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text, re.ASCII) is None:
        raise FormatError(f"{name}: expected a whole number")
    return int(text)
