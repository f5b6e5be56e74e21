"""Green Button files of portals: homes that would become one, values that do not count, and costs."""

from collections import Counter

import pytest

from meteragent.domain.errors import FormatError
from meteragent.formats import green_button
from meteragent.formats.entry import drop_copies
from tests.support.steps import ending, steps_of

START_S = 1_735_689_600
ROOT = "/espi/1_1/resource"
TYPE = f"{ROOT}/ReadingType/1"


def entry(place: str, links: str, content: str, title: str = "") -> str:
    """Return an entry of a feed."""
    head = f'<entry><title>{title}</title><link rel="self" href="{place}"/>'
    return f"{head}{links}<content>{content}</content></entry>"


def link(relation: str, *places: str) -> str:
    """Return links of an entry."""
    return "".join(f'<link rel="{relation}" href="{place}"/>' for place in places)


def feed(*entries: str) -> bytes:
    """Return a feed with a ReadingType and entries."""
    spaces = 'xmlns="http://www.w3.org/2005/Atom" xmlns:e="http://naesb.org/espi"'
    return f"<feed {spaces}>{reading_type()}{''.join(entries)}</feed>".encode()


def reading_type(place: str = TYPE, **numbers: int) -> str:
    """Return a ReadingType, by default of consumed energy in Wh."""
    elements = {"uom": 72, "accumulationBehaviour": 4, "flowDirection": 1, "commodity": 1} | numbers
    content = "".join(f"<e:{name}>{number}</e:{name}>" for name, number in elements.items())
    return entry(place, "", f"<e:ReadingType>{content}</e:ReadingType>")


def block(stream: str, *values: object, start_s: int = START_S, length_s: int = 3600) -> str:
    """Return a block of successive values; None has no element."""
    readings = []
    for index, value in enumerate(values):
        start = f"<e:start>{start_s + index * length_s}</e:start><e:duration>{length_s}</e:duration>"
        element = "" if value is None else f"<e:value>{value}</e:value>"
        readings.append(
            f"<e:IntervalReading><e:timePeriod>{start}</e:timePeriod>{element}</e:IntervalReading>"
        )
    content = f"<e:IntervalBlock>{''.join(readings)}</e:IntervalBlock>"
    return entry(f"{stream}/IntervalBlock/1", link("up", f"{stream}/IntervalBlock"), content)


def stream(point: str, number: str = "01", kind: str = TYPE) -> str:
    """Return a MeterReading."""
    place = f"{point}/MeterReading"
    links = link("up", place) + link("related", f"{place}/{number}/IntervalBlock", kind)
    return entry(f"{place}/{number}", links, "<e:MeterReading/>")


def usage_point(place: str, title: str = "", service: int = 0) -> str:
    """Return a UsagePoint."""
    kind = f"<e:ServiceCategory><e:kind>{service}</e:kind></e:ServiceCategory>"
    return entry(place, "", f"<e:UsagePoint>{kind}</e:UsagePoint>", title)


def home(place: str, *values: object, title: str = "", start_s: int = START_S) -> str:
    """Return a home with one MeterReading and one block."""
    values = values or (100, 200)
    first_block = block(f"{place}/MeterReading/01", *values, start_s=start_s)
    return usage_point(place, title) + stream(place) + first_block


def customer(number: object, point: str = "01") -> str:
    """Return the address of a customer's UsagePoint."""
    return f"{ROOT}/RetailCustomer/{number}/UsagePoint/{point}"


def values_of(content: bytes, **options: str) -> tuple[list[tuple[str, int]], Counter[str]]:
    """Return the meters and values that are read, and what is left out."""
    left_out = Counter[str]()
    entries = drop_copies(green_button.read(content, left_out=left_out, **options), left_out)
    return [(entry.meter, int(entry.value)) for entry in entries], left_out


SOLAR, GAS, DAILY = (f"{ROOT}/ReadingType/{number}" for number in (2, 3, 4))
POINT = customer(1)
SECOND = f"{POINT}/MeterReading/02"
BESIDE = {
    "feed-in": (
        stream(POINT, "02", SOLAR) + block(SECOND, 50, 60) + reading_type(SOLAR, flowDirection=19),
        2,
    ),
    "net flow": (stream(POINT, "02", SOLAR) + block(SECOND, 5, -6) + reading_type(SOLAR, flowDirection=4), 2),
    "gas by commodity": (stream(POINT, "02", GAS) + block(SECOND, 9) + reading_type(GAS, commodity=7), 1),
    "gas by unit": (stream(POINT, "02", GAS) + block(SECOND, 9) + reading_type(GAS, uom=169), 1),
    "a register": (
        stream(POINT, "02", GAS) + block(SECOND, 10**6) + reading_type(GAS, accumulationBehaviour=3),
        1,
    ),
    "gas of another UsagePoint": (
        usage_point(customer(1, "gas"), service=1)
        + stream(customer(1, "gas"))
        + block(f"{customer(1, 'gas')}/MeterReading/01", 9),
        1,
    ),
    "a daily total": (stream(POINT, "02") + block(SECOND, 300, length_s=86_400), 1),
    "an unused type": (reading_type(GAS, uom=169), 1),
    "a missing value": (block(f"{POINT}/MeterReading/01", None, start_s=START_S + 7200), 1),
    "an empty value": (block(f"{POINT}/MeterReading/01", " ", start_s=START_S + 7200), 1),
    "a block that is sent twice": (block(f"{POINT}/MeterReading/01", 100, 200), 2),
}


@pytest.mark.parametrize("what", BESIDE)
@pytest.mark.parametrize("is_first", [False, True])
def test_what_does_not_count_is_left_out(what: str, is_first: bool) -> None:
    """The electricity is read, and what stands beside it is counted by its reason, wherever it stands."""
    beside, count = BESIDE[what]
    parts = (beside, home(POINT)) if is_first else (home(POINT), beside)
    values, left_out = values_of(feed(*parts))
    name = "RetailCustomer/1/UsagePoint/01"
    assert sorted(values) == [(name, 100), (name, 200)]
    assert list(left_out.values()) == [count]


def test_a_file_without_electricity_is_refused() -> None:
    """If nothing is left, the refusal says what the file has, and where."""
    content = feed(home(POINT)).replace(b"<e:uom>72<", b"<e:uom>169<")
    with pytest.raises(FormatError, match=r"uom 169: expected 38 .*/UsagePoint/01/MeterReading/01"):
        green_button.read(content)


@pytest.mark.parametrize(
    "again",
    [
        block(f"{POINT}/MeterReading/01", 150, start_s=START_S + 3600),
        block(f"{POINT}/MeterReading/01", 200, start_s=START_S + 5400),
        stream(POINT, "02") + block(SECOND, 50),
    ],
)
def test_intervals_that_overlap_are_refused(again: str) -> None:
    """Another value of an interval, a shifted interval, and a second channel would count twice."""
    with pytest.raises(FormatError, match=r"intervals of meter '.*/01' overlap at 2025-01-01T0\d:"):
        values_of(feed(home(POINT), again))


TWO = {
    "one number of two customers": (home(customer(1)), home(customer(2), 900)),
    "one title": (home(customer(1), title="Home"), home(customer(2), 900, title="Home")),
    "a portal's title": tuple(home(customer(n), title="Green Button Subscription Feed") for n in (1, 2)),
    "the title of one, the place of the other": (
        home(customer(1, "07"), title="B"),
        home(customer(2, "B"), 900),
    ),
    "one address at two hosts": tuple(home(f"https://{host}.example{customer(1)}") for host in "ab"),
}


@pytest.mark.parametrize("what", TWO)
@pytest.mark.parametrize("in_one_file", [True, False])
def test_two_homes_never_become_one(what: str, in_one_file: bool) -> None:
    """Homes have distinct names in one file and across files, whatever their titles and numbers are."""
    homes = TWO[what]
    contents = [feed(*homes)] if in_one_file else [feed(home) for home in homes]
    rows = [row for content in contents for row in values_of(content)[0]]
    assert len({meter for meter, _ in rows}) == 2
    assert len(rows) == sum(home.count("<e:value>") for home in homes)


def root_home(number: int, start_s: int) -> str:
    """Return a home whose resources only related links connect."""
    point, reading = customer(number), f"{ROOT}/MeterReading/{number}"
    links = link("up", f"{ROOT}/MeterReading") + link("related", f"{ROOT}/IntervalBlock/{number}", TYPE)
    content = block(reading, 100, start_s=start_s)
    content = content.replace(f"{reading}/IntervalBlock/1", f"{ROOT}/IntervalBlock/{number}")
    content = content.replace(f"{reading}/IntervalBlock", f"{ROOT}/IntervalBlock")
    return (
        entry(point, link("related", reading), "<e:UsagePoint/>")
        + entry(reading, links, "<e:MeterReading/>")
        + content
    )


def test_resources_that_only_links_connect_stay_apart() -> None:
    """Resources of several homes in common collections belong to those that link to them."""
    values, _ = values_of(feed(root_home(1, START_S), root_home(2, START_S + 86_400)))
    assert [meter for meter, _ in values] == [f"RetailCustomer/{number}/UsagePoint/01" for number in (1, 2)]


AMBIGUOUS = {
    "MeterReadings of one address": (
        feed(home(customer(1)), home(customer(2), start_s=START_S + 86_400).replace(customer(2), customer(1)))
    ).replace(b"<e:kind>0<", b"<e:kind>00<", 1),
    "a block in a collection of two": feed(
        root_home(1, START_S).replace("IntervalBlock/1", "IntervalBlock"),
        root_home(2, START_S).replace("IntervalBlock/2", "IntervalBlock"),
    ),
    "a MeterReading without UsagePoint": feed(root_home(1, START_S).replace("UsagePoint>", "Other>")).replace(
        b"<e:UsagePoint/>", b"<e:Other/>"
    ),
    "an address without a customer": feed(home(f"{ROOT}/UsagePoint/01")),
    "a name for two": feed(home(customer(1)), home(customer(2))),
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_homes_that_cannot_be_told_apart_are_refused(what: str) -> None:
    """A file is refused if it does not say whose a value is, or if one name would be that of two homes."""
    options = {"meter": "house"} if what == "a name for two" else {}
    with pytest.raises(
        FormatError, match=r"differ|belongs to|names no customer|two UsagePoints have the name"
    ):
        values_of(AMBIGUOUS[what], **options)


def test_the_only_meter_can_be_named() -> None:
    """The name of an option takes the place of an address, also of one without a customer."""
    for place in (f"{ROOT}/UsagePoint/01", customer(1)):
        values, _ = values_of(feed(home(place)), meter="house 7")
        assert {meter for meter, _ in values} == {"house 7"}


@pytest.mark.parametrize("start_s", [START_S * 1000, 1, 631_151_999, 4_134_000_000])
def test_times_of_another_unit_are_refused(start_s: int) -> None:
    """Milliseconds, and other times outside 1990 to 2100, are no seconds."""
    with pytest.raises(FormatError, match="1990 to 2100"):
        green_button.read(feed(home(POINT, start_s=start_s)))


SHAPES = {
    "many homes": lambda size: [home(customer(number)) for number in range(size)],
    "many blocks": lambda size: [
        home(POINT),
        *(block(f"{POINT}/MeterReading/01", 5, start_s=START_S + (day + 1) * 86_400) for day in range(size)),
    ],
    "many links": lambda size: [
        home(POINT).replace("<content>", link("related", *"ab" * size) + "<content>")
    ],
    "many lengths": lambda size: [
        home(POINT),
        *(
            stream(POINT, f"1{number}") + block(f"{POINT}/MeterReading/1{number}", 5, length_s=7200 + number)
            for number in range(size)
        ),
    ],
    "many copies": lambda size: [home(POINT) for _ in range(size)],
    "many values that do not count": lambda size: [
        home(POINT),
        block(f"{POINT}/MeterReading/01", *[None] * size, start_s=START_S + 86_400),
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_file_costs_at_most_twice_the_steps(shape: str) -> None:
    """The cost grows as the file does, whatever there is twice as much of."""
    contents = [feed(*SHAPES[shape](size)) for size in (20, 40, 80)]
    costs = [steps_of(lambda content=content: green_button.read(content)) for content in contents]  # type: ignore[misc]
    assert costs[1] <= 2 * costs[0]
    assert costs[2] <= 2 * costs[1]


@pytest.mark.parametrize("content", ["<e:ReadingType>", "<e:UsagePoint>"])
def test_a_resource_that_many_share_is_read_once(content: str) -> None:
    """A long ReadingType or UsagePoint of 5,000 MeterReadings costs as much as that of one."""
    parts = [usage_point(POINT)]
    for number in range(5_000):
        place = f"{POINT}/MeterReading/{number}"
        parts += [stream(POINT, str(number)), block(place, 5, start_s=START_S + number * 3600)]
    long_feed = feed(*parts).replace(content.encode(), (content + "<e:x/>" * 200_000).encode(), 1)
    with ending(cpu_s=8):
        assert len(green_button.read(long_feed)) == 5_000


def test_a_block_of_a_home_without_its_stream_is_refused() -> None:
    """A UsagePoint is no MeterReading, so its address cannot own a block."""
    orphan = entry(f"{POINT}/x", link("up", f"{POINT}/IntervalBlock"), "<e:IntervalBlock/>")
    with pytest.raises(FormatError, match=r"the IntervalBlock \S+ belongs to no resource"):
        green_button.read(feed(home(POINT), orphan))
