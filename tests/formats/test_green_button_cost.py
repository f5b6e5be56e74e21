"""Green Button files that would cost, and homes that would become one."""

import xml.etree.ElementTree as ET

import pytest

from meteragent.domain.errors import FormatError
from meteragent.formats import green_button

START_S = 1_795_176_000


def entry(place: str, links: str, content: str, title: str = "") -> str:
    """Return an entry of a feed."""
    head = f'<entry><title>{title}</title><link rel="self" href="{place}"/>'
    return f"{head}{links}<content>{content}</content></entry>"


def feed(*entries: str) -> bytes:
    """Return a feed with a ReadingType and entries."""
    spaces = 'xmlns="http://www.w3.org/2005/Atom" xmlns:e="http://naesb.org/espi"'
    kind = entry("/T", "", "<e:ReadingType><e:uom>72</e:uom></e:ReadingType>")
    return f"<feed {spaces}>{kind}{''.join(entries)}</feed>".encode()


def home(place: str, title: str = "", start_s: int = START_S, blocks: int = 1) -> str:
    """Return a home with its MeterReading and blocks, which only related links connect."""
    period = f"<e:timePeriod><e:start>{start_s}</e:start><e:duration>1800</e:duration></e:timePeriod>"
    reading = f"<e:IntervalReading>{period}<e:value>5</e:value></e:IntervalReading>"
    block = f"<e:IntervalBlock>{reading}</e:IntervalBlock>"
    links = '<link rel="related" href="/T"/>' + f'<link rel="related" href="{place}/b"/>' * blocks
    up = f'<link rel="up" href="{place}/MeterReading"/>'
    return (
        entry(place, "", "<e:UsagePoint/>", title)
        + entry(f"{place}/MeterReading/1", up + links, "<e:MeterReading/>")
        + entry(f"{place}/B", f'<link rel="up" href="{place}/b"/>', block) * blocks
    )


@pytest.mark.parametrize("is_one_home", [True, False])
def test_twice_the_file_costs_at_most_twice_the_steps(
    is_one_home: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links that are looked at grow as the file does, with many homes or with many blocks of one."""
    steps = 0

    def counted(element: ET.Element, relation: str) -> list[str]:
        nonlocal steps
        found = links(element, relation)
        steps += 1 + len(found)
        return found

    links = green_button._links
    monkeypatch.setattr(green_button, "_links", counted)
    costs = []
    for size in (50, 100, 200):
        steps = 0
        homes = [home("/U/1", blocks=size)] if is_one_home else [home(f"/U/{n}") for n in range(size)]
        assert len(list(green_button.read(feed(*homes)))) == size
        costs.append(steps)
    assert costs[1] <= 2 * costs[0]
    assert costs[2] <= 2 * costs[1]


TWO = {
    "the last part of their places": (home("/1/UsagePoint/01"), home("/2/UsagePoint/01")),
    "a title that both have": (home("/1/U/1", "Home"), home("/2/U/1", "Home")),
    "the title of one, the place of the other": (home("/1/U/A", "B"), home("/2/U/B")),
}


@pytest.mark.parametrize("what", TWO)
def test_two_homes_never_become_one(what: str) -> None:
    """If two homes would have one name, the file is refused, and both places are named."""
    with pytest.raises(FormatError, match=r"two UsagePoints have the name .*/1/.* and /2/"):
        list(green_button.read(feed(*TWO[what])))


@pytest.mark.parametrize("start_s", [START_S * 1000, 1, 4_200_000_000])
def test_times_of_another_unit_are_refused(start_s: int) -> None:
    """Milliseconds, and other times outside 1990 to 2100, are no seconds."""
    with pytest.raises(FormatError, match="1990 to 2100"):
        list(green_button.read(feed(home("/U/1", start_s=start_s))))
