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
from collections.abc import Collection, Container, Iterable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Final, NamedTuple

from meteragent.domain.errors import FormatError
from meteragent.domain.grid import END_MS, FIRST_MS, iso_time
from meteragent.domain.identity import is_valid_name
from meteragent.domain.units import DAY_MS
from meteragent.formats.entry import Entry, Quality, require_intervals
from meteragent.formats.xml import add_child, encode_document, parse_document

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
_NET: Final = 4
"""The flow direction of net flow, consumption less feed-in; 1 is consumption, and 0 means not applicable."""
_POWERS: Final = (0, -3, -6)
"""The exponents of ten that are written, in order of preference."""
_POWER_MAX: Final = 12
"""The largest absolute value of an exponent of ten that is read: from pico to tera."""
_NUMBERS: Final[dict[str, tuple[int | None, Container[int], str]]] = {
    "uom": (None, _UOM, "38 (W) or 72 (Wh)"),
    "accumulationBehaviour": (_DELTA, {0, _DELTA, _INDICATING}, "values of intervals (4)"),
    "flowDirection": (1, {0, 1, _NET}, "consumption (1) or net (4)"),
    "commodity": (_ELECTRICITY, {0, _ELECTRICITY}, "electricity (1)"),
    "powerOfTenMultiplier": (0, range(-_POWER_MAX, _POWER_MAX + 1), f"-{_POWER_MAX} to {_POWER_MAX}"),
}
"""Each number of a ReadingType, by name: its default, the values that are read, and their description."""
_INT48_MAX: Final = 2**47 - 1
_ROOT: Final = "/espi/1_1/resource"
_NAMESPACE: Final = uuid.UUID("6f2d2b8e-54a5-4f0e-9d0b-6d0f3a3f6c52")
"""The namespace of the feed's ids, so that a repeated conversion yields the same ids."""
_FEED_ID: Final = f"urn:uuid:{uuid.uuid5(_NAMESPACE, _ROOT)}"
_TITLE = re.compile(
    r"estimated, standard deviation (\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?) Wh?, descriptor (\S*)", re.ASCII
)

ET.register_namespace("atom", ATOM.strip("{}"))
ET.register_namespace("espi", ESPI.strip("{}"))


class Form(NamedTuple):
    """The properties that all values of a MeterReading share."""

    is_energy: bool
    length_ms: int
    quality: Quality
    sd: float | None
    d: str

    @property
    def title(self) -> str:
        """The title of the ReadingType."""
        unit = "Wh" if self.is_energy else "W"
        deviation = f", standard deviation {self.sd!r} {unit}, descriptor {self.d}"
        return self.quality if self.sd is None else self.quality + deviation


def write(entries: Iterable[Entry], now_ms: int) -> bytes:
    """Return entries as a feed. Raises FormatError if ESPI cannot carry one of them."""
    checked_entries = require_intervals(entries, "green-button")
    feed = ET.Element(f"{ATOM}feed")
    _identify(feed, _ROOT, "Green Button usage", now_ms)
    groups: defaultdict[str, defaultdict[Form, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in checked_entries:
        length_ms = entry.end_ms - entry.start_ms
        form = Form(entry.is_energy, length_ms, entry.quality, entry.base_sd, entry.d)
        groups[entry.meter][form].append(entry)
    distinct_forms = dict.fromkeys(form for forms in groups.values() for form in forms)
    powers = {form: _power_of(groups, form) for form in distinct_forms}
    types = {form: f"{_ROOT}/ReadingType/{number}" for number, form in enumerate(powers, start=1)}
    for number, (meter, forms) in enumerate(groups.items(), start=1):
        place = f"{_ROOT}/UsagePoint/{number}"
        point = _resource(feed, place, f"{_ROOT}/UsagePoint", [f"{place}/MeterReading"], meter, now_ms)
        category = add_child(add_child(point, f"{ESPI}UsagePoint"), f"{ESPI}ServiceCategory")
        add_child(category, f"{ESPI}kind", "0")
        for index, (form, values) in enumerate(forms.items(), start=1):
            _stream(feed, f"{place}/MeterReading/{index}", types[form], values, powers[form], now_ms)
    for form, place in types.items():
        _reading_type(feed, place, form, powers[form], now_ms)
    return encode_document(feed)


def _power_of(groups: dict[str, defaultdict[Form, list[Entry]]], form: Form) -> int:
    """Return the largest of `_POWERS` with which a form's values are whole, or raise FormatError."""
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
    blocks = f"{place}/IntervalBlock"
    content = _resource(feed, place, place.rpartition("/")[0], [blocks, reading_type], "", now_ms)
    add_child(content, f"{ESPI}MeterReading")
    for day, group in groupby(entries, lambda entry: entry.start_ms // DAY_MS):
        values = list(group)
        block = add_child(_resource(feed, f"{blocks}/{day}", blocks, [], "", now_ms), f"{ESPI}IntervalBlock")
        _period(block, "interval", values[0].start_ms, values[-1].end_ms)
        for entry in values:
            reading = add_child(block, f"{ESPI}IntervalReading")
            code = _DERIVED if entry.quality == "estimated" else 0
            add_child(add_child(reading, f"{ESPI}ReadingQuality"), f"{ESPI}quality", str(code))
            _period(reading, "timePeriod", entry.start_ms, entry.end_ms)
            add_child(reading, f"{ESPI}value", str(entry.base_value / Fraction(10) ** power))


def _reading_type(feed: ET.Element, place: str, form: Form, power: int, now_ms: int) -> None:
    content = _resource(feed, place, place.rpartition("/")[0], [], form.title, now_ms)
    element = add_child(content, f"{ESPI}ReadingType")
    numbers = {
        "accumulationBehaviour": _DELTA if form.is_energy else _INDICATING,
        "commodity": _ELECTRICITY,
        "dataQualifier": _NORMAL if form.is_energy else _AVERAGE,
        "defaultQuality": _DERIVED if form.quality == "estimated" else 0,
        "intervalLength": form.length_ms // 1000,
        "kind": _KIND_ENERGY if form.is_energy else _KIND_POWER,
        "powerOfTenMultiplier": power,
        "uom": _ENERGY if form.is_energy else _POWER,
    }
    for name, number in numbers.items():
        add_child(element, f"{ESPI}{name}", str(number))


def _period(parent: ET.Element, name: str, start_ms: int, end_ms: int) -> None:
    element = add_child(parent, f"{ESPI}{name}")
    add_child(element, f"{ESPI}duration", str((end_ms - start_ms) // 1000))
    add_child(element, f"{ESPI}start", str(start_ms // 1000))


def _resource(
    feed: ET.Element, place: str, parent_place: str, related: list[str], title: str, now_ms: int
) -> ET.Element:
    """Append an entry to the feed, and return the entry's content element."""
    element = add_child(feed, f"{ATOM}entry")
    _identify(element, place, title, now_ms, parent_place)
    for related_place in related:
        add_child(element, f"{ATOM}link", rel="related", href=related_place)
    content = add_child(element, f"{ATOM}content")
    add_child(element, f"{ATOM}published", iso_time(now_ms))
    return content


def _identify(
    element: ET.Element, place: str, title: str, now_ms: int, parent_place: str | None = None
) -> None:
    add_child(element, f"{ATOM}id", f"urn:uuid:{uuid.uuid5(_NAMESPACE, place)}")
    add_child(element, f"{ATOM}title", title)
    add_child(element, f"{ATOM}updated", iso_time(now_ms))
    add_child(element, f"{ATOM}link", rel="self", href=place)
    if parent_place is not None:
        add_child(element, f"{ATOM}link", rel="up", href=parent_place)


class _Type(NamedTuple):
    """The parts of a ReadingType that `read` needs."""

    unit: str
    scale: Fraction
    quality: int | None
    sd: float | None
    d: str


def read(content: bytes, meter: str | None = None, left_out: Counter[str] | None = None) -> list[Entry]:
    """Return a feed's entries, in W and Wh; `meter` names the only meter of the feed.

    Other quantities, values that are missing, and totals and net flow next to the values they contain are
    left out; `left_out` counts them by reason. Raises FormatError for an invalid feed, for homes that cannot
    be told apart, and if nothing is left.
    """
    root, left_out = parse_document(content), Counter() if left_out is None else left_out
    feed, streams = _Feed(root, meter), defaultdict[str, list[Entry]](list)
    for place, block in _resources(root, "IntervalBlock"):
        stream, name, form = feed.source_of(place, block)
        for element in block.iter(f"{ESPI}IntervalReading"):
            if isinstance(form, str):
                left_out[f"{form} ({stream})"] += 1
            elif (element.findtext(f"{ESPI}value") or "").strip():
                streams[stream].append(_entry(element, name, form))
            else:
                left_out[f"the value is missing ({stream})"] += 1
    left_out.update(f"a ReadingType that no value has ({place})" for place in feed.unused_types)
    for stream in _find_contained(streams, feed.net_streams):
        count = len(streams.pop(stream))
        left_out[f"a total or net flow next to other values of the meter ({stream})"] += count
    if not streams:
        raise FormatError(next(iter(left_out), "no IntervalBlock has a value"))
    return [entry for entries in streams.values() for entry in entries]


def _find_contained(streams: dict[str, list[Entry]], net_streams: Collection[str]) -> set[str]:
    """Return the MeterReadings that overlap in time with a better one of the same meter and quantity.

    Consumption is better than net flow, from which feed-in is subtracted, and shorter intervals are
    better than longer ones, which are their totals.
    """
    rows = []
    for stream, entries in streams.items():
        rank = stream in net_streams, max(entry.end_ms - entry.start_ms for entry in entries)
        rows += [(entry.meter, entry.unit, entry.start_ms, entry.end_ms, rank, stream) for entry in entries]
    contained, previous = set(), None
    for row in sorted(rows):
        if previous is not None and previous[:2] == row[:2] and row[2] < previous[3]:
            better, worse = (previous, row) if previous[4] <= row[4] else (row, previous)
            if better[4] < worse[4]:
                contained.add(worse[5])
            previous = better
        else:
            previous = row
    return contained


class _Feed:
    """The resources of a feed by their places, and the links between them."""

    def __init__(self, root: ET.Element, meter: str | None) -> None:
        kinds = "UsagePoint", "MeterReading", "ReadingType"
        self._points, self._readings, types = (_by_place(root, kind) for kind in kinds)
        self._types = {place: _type(element) for place, element in types.items()}
        if not self._types:
            raise FormatError("no ReadingType: this is not a Green Button file, or its units are missing")
        self._points_by_link, self._readings_by_link = _by_link(self._points), _by_link(self._readings)
        is_own, points = root.findtext(f"{ATOM}id") == _FEED_ID, self._points.items()
        self._titles = {at: point.findtext(f"{ATOM}title", "").strip() for at, point in points if is_own}
        self._kinds = {at: point.findtext(f".//{ESPI}kind", "0").strip() for at, point in points}
        self._meter = meter
        self._places: dict[str, str] = {}
        self._sources: dict[str, tuple[str, _Type | str]] = {}
        self.unused_types = dict.fromkeys(self._types)
        self.net_streams: set[str] = set()

    def source_of(self, place: str, block: ET.Element) -> tuple[str, str, _Type | str]:
        """Return the MeterReading, meter and ReadingType of a block, or the reason to leave it out."""
        stream = _owner(block, place, "IntervalBlock", self._readings, self._readings_by_link)
        if stream not in self._sources:
            self._sources[stream] = self._source(stream)
        return (stream, *self._sources[stream])

    def _source(self, stream: str) -> tuple[str, _Type | str]:
        reading = self._readings[stream]
        names = {link for link in _links(reading, "related") if link in self._types}
        if len(names) != 1:
            raise FormatError("a MeterReading does not have exactly one ReadingType in the file")
        (name,) = names
        self.unused_types.pop(name, None)
        point = _owner(reading, stream, "MeterReading", self._points, self._points_by_link)
        if self._kinds.get(point, "0") != "0":
            return "", "a ServiceCategory other than electricity (0)"
        form, is_net = self._types[name]
        if isinstance(form, str):
            return "", form
        if is_net:
            self.net_streams.add(stream)
        return self._name(point), form

    def _name(self, place: str) -> str:
        """Return the name of the meter at a place; no other place has the same name.

        It is the address of the UsagePoint, because titles describe feeds and portals, and a UsagePoint's
        number is unique only within a customer. Titles are names only in feeds that `write` created.
        """
        address = f"/{place.partition('://')[2] or place}".replace(f"{_ROOT}/", "/", 1)
        name = self._meter or address.strip("/")
        if self._meter is None and place in self._titles:
            name = self._titles[place]
        elif name.startswith("UsagePoint/"):
            raise FormatError(f"the address {place} names no customer: name the only meter with --meter NAME")
        if not is_valid_name(name):
            raise FormatError("a UsagePoint has no name of 1 to 128 printable characters: use --meter NAME")
        if self._places.setdefault(name, place) != place:
            raise FormatError(f"two UsagePoints have the name {name!r}: {self._places[name]} and {place}")
        return name


def _resources(feed: ET.Element, kind: str) -> Iterator[tuple[str, ET.Element]]:
    """Yield the place and element of each feed entry that holds this kind of resource."""
    for element in feed.iter(f"{ATOM}entry"):
        if element.find(f"{ATOM}content/{ESPI}{kind}") is not None:
            yield next(iter(_links(element, "self")), ""), element


def _by_place(feed: ET.Element, kind: str) -> dict[str, ET.Element]:
    """Return resources by place. Raises FormatError if two different resources have the same place."""
    resources: dict[str, ET.Element] = {}
    for place, element in _resources(feed, kind):
        if _identity(resources.setdefault(place, element)) != _identity(element):
            raise FormatError(f"two resources {kind} that differ have the address {place!r}")
    return resources


def _identity(element: ET.Element) -> tuple[object, ...]:
    """Return what copies of a resource share: everything except the id and the times of publication."""
    content = ET.tostring(next(element.iterfind(f"{ATOM}content")))
    links = {link for relation in ("up", "related") for link in _links(element, relation)}
    return element.findtext(f"{ATOM}title"), content, links


def _by_link(resources: dict[str, ET.Element]) -> dict[str, set[str]]:
    """Return, for each address, the resources that link to it."""
    places = defaultdict[str, set[str]](set)
    for place, element in resources.items():
        for link in _links(element, "related"):
            places[link].add(place)
    return places


def _owner(
    element: ET.Element, place: str, kind: str, owners: Collection[str], linking: dict[str, set[str]]
) -> str:
    """Find the place of a resource's owner, by a link in either direction. Raises FormatError if unclear."""
    up = next(iter(_links(element, "up")), place.rpartition("/")[0])
    owner = up.removesuffix(f"/{kind}")
    if owner in owners:
        return owner
    places = linking.get(place) or linking.get(up) or set()
    if not places and kind == "MeterReading" and owner.rpartition("/")[0].endswith("UsagePoint"):
        return owner  # some files lack an entry for the owner
    if len(places) != 1:
        number = "more than one resource" if places else "no resource"
        raise FormatError(f"the {kind} {place} belongs to {number} of the file")
    return next(iter(places))


def _links(element: ET.Element, relation: str) -> list[str]:
    return [link.get("href", "") for link in element.iterfind(f"{ATOM}link") if link.get("rel") == relation]


def _type(resource: ET.Element) -> tuple[_Type | str, bool]:
    """Return a ReadingType, or the reason why its values are not read, and whether it is net flow."""
    element, numbers = next(resource.iter(f"{ESPI}ReadingType")), dict[str, int]()
    try:
        for name, (default, known_numbers, expected) in _NUMBERS.items():
            numbers[name] = _integer(element, name, default)
            if numbers[name] not in known_numbers:
                return f"{name} {numbers[name]}: expected {expected}", False
        quality = _integer(element, "defaultQuality", 0)
    except FormatError as error:
        return str(error), False
    title = _TITLE.fullmatch((resource.findtext(f"{ATOM}title") or "").strip())
    sd, d = (None, "") if title is None else (float(title[1]), title[2])
    scale = Fraction(10) ** numbers["powerOfTenMultiplier"]
    return _Type(_UOM[numbers["uom"]], scale, quality, sd, d), numbers["flowDirection"] == _NET


def _entry(element: ET.Element, meter: str, form: _Type) -> Entry:
    """Return the entry of an IntervalReading. Raises FormatError if the element is incomplete or wrong."""
    period = element.find(f"{ESPI}timePeriod")
    if period is None:
        raise FormatError("an IntervalReading has no timePeriod")
    start_s, duration_s = _integer(period, "start"), _integer(period, "duration")
    if duration_s <= 0:
        raise FormatError("an IntervalReading has no duration")
    if not FIRST_MS <= start_s * 1000 < (start_s + duration_s) * 1000 <= END_MS:
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
