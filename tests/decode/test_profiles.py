"""Every device's profile: what its messages hold, what changed ones are counted as, and what never leaves."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from importlib import resources
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.decode import number, profiles
from meteragent.decode.profiles import PROFILES
from meteragent.domain.units import MICRO
from tests.commands import profile_table
from tests.support import profile_fixtures
from tests.support.generated import assert_renewed
from tests.support.profile_contract import (
    Case,
    Path,
    carriers,
    damaged,
    damages,
    differs_in_value,
    extended,
    is_in_value,
    outcome,
    parsed,
    reordered,
    written,
)

CASES: tuple[Case, ...] = tuple(
    case
    for module in pkgutil.iter_modules(profile_fixtures.__path__)
    for case in importlib.import_module(f"tests.support.profile_fixtures.{module.name}").CASES
)
PLACES = {id(case): place for place, case in enumerate(CASES)}
DOCUMENTS = [case for case in CASES if parsed(case.payload) is not None]
TEXTS = [case for case in CASES if parsed(case.payload) is None]
BARE = [case for case in TEXTS if not case.value_places]
by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_document = pytest.mark.parametrize("case", DOCUMENTS, ids=str)


def test_each_profile_is_listed() -> None:
    """A file in the folder of profiles is a profile that `discover` tries."""
    folder = resources.files(profiles)
    assert {file.name for file in folder.iterdir() if file.name.endswith(".toml")} == {
        f"{n}.toml" for n in PROFILES
    }


@cache
def carried(place: int) -> dict[str, list[Path]]:
    """The carriers of each quantity of a case."""
    case = CASES[place]
    document = parsed(case.payload)
    return {name: carriers(case, name, document) for name in case.readings}


def readers(case: Case) -> Iterator[tuple[str, list[Path]]]:
    """The quantities that a message is asked for, with their carriers."""
    yield from carried(PLACES[id(case)]).items()


def on_topic(case: Case, template: str) -> bool:
    """Whether a message came on a topic of a template."""
    places, segments = template.split("/"), case.topic.split("/")
    return len(places) == len(segments) and all(
        place in (segment, "+") or "{" in place for place, segment in zip(places, segments, strict=True)
    )


# What messages hold -------------------------------------------------------------------------------


@by_case
def test_a_message_is_read_as_stated(case: Case) -> None:
    """Every quantity has the stated times and numbers, exactly, or is counted under the stated name."""
    for name in case.readings:
        assert outcome(case.decoder(name), case.payload) == case.stated(name), name


def cases_of(name: str) -> list[Case]:
    """The cases of a profile."""
    cases = [case for case in CASES if case.profile == name]
    if not cases:
        pytest.fail(f"{name} has no case in tests/support/profile_fixtures", pytrace=False)
    return cases


@pytest.mark.parametrize("name", PROFILES)
def test_every_quantity_of_a_profile_is_read_somewhere(name: str) -> None:
    """Every profile has a message, on one of its topics, and every quantity is found in one of them."""
    cases = cases_of(name)
    read = {
        quantity
        for case in cases
        for quantity, stated in case.readings.items()
        if not isinstance(stated, str)
    }
    channels = {quantity for quantity in PROFILES[name].quantities if re.search(r"-[0-9]$", quantity)}
    assert set(PROFILES[name].quantities) - read <= channels
    assert any(on_topic(case, template) for case in cases for template in PROFILES[name].topics)


@by_document
def test_what_a_reading_rests_on_is_in_the_message(case: Case) -> None:
    """A reading has carriers, and another digit in one of them changes it: nothing is made up."""
    for name, paths in readers(case):
        assert bool(paths) != isinstance(case.stated(name), str), name


@by_case
def test_a_topic_that_names_somebody_is_known_to(case: Case) -> None:
    """Where a message's topic names a device, a person or a contract, its profile says so."""
    assert case.meter is None or case.device.identifies is not None


# What changed messages hold -----------------------------------------------------------------------


@by_document
def test_order_and_further_fields_do_not_matter(case: Case) -> None:
    """Fields in another order, and fields that nobody knows, change nothing."""
    document = parsed(case.payload)
    for other in (reordered(document), extended(document)):
        for name in case.readings:
            assert outcome(case.decoder(name), written(other).encode()) == case.stated(name), name


@pytest.mark.slow("every field of every message, in all")
@by_document
def test_a_damaged_field_is_refused_or_does_not_matter(case: Case) -> None:
    """A field missing, null or of another type: the same readings, or a counter; no other number."""
    document = parsed(case.payload)
    for damage in damages(document):
        for name, paths in readers(case):
            is_element = isinstance(damage.path[-1], int) and damage.change == "taken out"
            if is_element and any(path[: len(damage.path)] == damage.path for path in paths):
                continue
            got = outcome(case.decoder(name), damage.payload)
            if case.is_untimed(name, parsed(damage.payload), got):
                continue
            assert isinstance(got, str) or got == case.stated(name), (name, damage.path, damage.change)


@pytest.mark.slow("every message at every byte, in all")
@by_case
def test_a_message_cut_short_is_refused(case: Case) -> None:
    """Cut after any byte a message is refused; a bare number cut short is the number that is left."""
    for name in case.readings:
        decode, stated = case.decoder(name), case.stated(name)
        for end in range(len(case.payload)):
            got = outcome(decode, case.payload[:end])
            if case in BARE and not isinstance(got, str):
                left_u = Fraction(number.read_number(case.payload[:end])) * case.scale(name) * MICRO
                assert got == ((None, floor(left_u + Fraction(1, 2))),)
            else:
                assert isinstance(got, str) or got == stated, (name, end)


@pytest.mark.slow("changes every byte of every message")
@pytest.mark.parametrize("case", [case for case in CASES if case not in BARE], ids=str)
def test_a_wrong_byte_is_refused_or_does_not_matter(case: Case) -> None:
    """One byte wrong or missing: the same readings or a counter, unless it is a byte of the value itself."""
    document = parsed(case.payload)
    for place, payload in damaged(case.payload):
        for name, paths in readers(case):
            got = outcome(case.decoder(name), payload)
            if isinstance(got, str) or got == case.stated(name):
                continue
            if case.is_untimed(name, parsed(payload), got):
                continue
            if document is None:
                assert is_in_value(case, place), (name, place)
            else:
                assert differs_in_value(document, payload, paths), (name, place, payload)


@pytest.mark.parametrize("name", PROFILES)
@settings(max_examples=40)
@given(data=st.data())
def test_any_bytes_are_readings_or_counted(name: str, data: st.DataObject) -> None:
    """Whatever arrives is readings or a message that a counter names: nothing else is raised."""
    case = data.draw(st.sampled_from(cases_of(name)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(case.payload))] * 2)))
    payload = case.payload[:start] + data.draw(st.binary(max_size=20)) + case.payload[end:]
    for quantity in case.readings:
        outcome(case.decoder(quantity), payload)


# What is said of them -----------------------------------------------------------------------------


def test_the_table_is_of_these_profiles() -> None:
    """The profiles' README has a section on each; `make tables` renews it."""
    text = profile_table.README.read_text()
    assert_renewed(profile_table.README, profile_table.renewed(text, profile_table.table()))
    assert all(f"| [`{name}`](#{name})" in text and f"\n## `{name}`" in text for name in PROFILES)
