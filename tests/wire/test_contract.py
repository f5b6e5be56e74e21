"""The schemas of the contract: what leaves is valid, and what is altered is not, or breaks a rule."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from meteragent.cli import main
from meteragent.consume import collect
from meteragent.decode.price import decode_prices
from meteragent.domain.commit import Total
from meteragent.domain.errors import PayloadError, RecordError
from meteragent.domain.grid import parse_time
from meteragent.domain.shapes import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.wire import contract, status, total
from meteragent.wire.descriptor import describe_terms
from tests.commands import contracts
from tests.support.archives import LONG, WIDE, Place, long_rows, manifest_of, save, wide_rows
from tests.support.conformance_cases import NOON, descriptor, every_terms, record
from tests.support.generated import assert_renewed
from tests.support.messages import changed

SCHEMAS = contract.all_schemas()
VALID = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
TERMS = every_terms()
LONG_KEYS = {"window": "length = '1h'\nstep = '30min'"}
by_terms = pytest.mark.parametrize("terms", TERMS.values(), ids=list(TERMS))


def errors(name: str, message: bytes | str) -> list[str]:
    """Return why a message is not valid."""
    return [error.message for error in VALID[name].iter_errors(json.loads(message))]


def messages(terms: Terms) -> Iterator[tuple[str, bytes]]:
    """Yield a descriptor and records, each with the name of its schema."""
    yield "descriptor", descriptor(terms, NOON)
    archived = not terms.shape.is_priced  # archives release no amounts
    if archived:
        yield "descriptor", describe_terms(terms, is_archive=True).encode_message("", parse_time(NOON))
    for slot in range(terms.n):
        yield "record", record(terms, NOON, str(-3 * terms.quantum), slot, draws=2)


def without(message: bytes, field: str) -> bytes:
    """Return a message without a field."""
    return json.dumps({name: fact for name, fact in json.loads(message).items() if name != field}).encode()


def test_the_schemas_are_sound() -> None:
    """Each is a schema of its draft."""
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_terms_cover_what_can_leave() -> None:
    """The terms of these tests have every space, kind and unit."""
    assert {terms.shape.space for terms in TERMS.values()} == set(Space) - {Space.SHARE}
    assert {terms.readings.kind for terms in TERMS.values()} == set(Kind)
    assert {terms.value_unit for terms in TERMS.values()} == {"W", "kW", "Wh", "kWh", "EUR"}


@by_terms
def test_what_leaves_is_valid(terms: Terms) -> None:
    """Every descriptor and record is valid."""
    for name, message in messages(terms):
        assert errors(name, message) == []


@by_terms
def test_no_field_leaves_that_the_contract_does_not_name(terms: Terms) -> None:
    """A field of a record or descriptor that the schema does not describe is a mistake of this repository."""
    for name, message in messages(terms):
        assert json.loads(message).keys() <= SCHEMAS[name]["properties"].keys()


@by_terms
def test_a_field_that_is_missing_is_refused(terms: Terms) -> None:
    """A record or descriptor without a field that the schema requires is not valid."""
    for name, message in messages(terms):
        for field in SCHEMAS[name].get("required", ()):
            assert errors(name, without(message, field))


@by_terms
def test_what_a_space_needs_is_required(terms: Terms) -> None:
    """A descriptor of a space without what makes the space is not valid, nor with what makes another."""
    facts = json.loads(descriptor(terms, NOON))
    made_by = {"bands", "weights", "threshold_w", "each_draw", "in_all", "reconstruction"}
    for field in made_by & facts.keys():
        assert errors("descriptor", without(descriptor(terms, NOON), field))
    others: dict[str, Any] = {"threshold_w": "3000", "weights": 1, "each_draw": True, "in_all": True}
    for field in others.keys() - facts.keys():
        message = json.dumps(facts | {field: others[field]})
        assert errors("descriptor", message)


MISTAKES: dict[str, list[Any]] = {
    "v": [0, 2, "1", None],
    "meter": [None, 5, []],
    "t": [None, "noon", 1795176000, "2026-11-20"],
    "for": [None, "30min", "PT7M", 1800],
    "value": [None, "512", True, 0.1234567, []],
    "unit": [None, "kW", "J", 1],
    "sd": [None, "311", 1.5, -311.1, 0],
    "d": [None, "00000000", "x", 4],
    "band": ["noon", 5],
    "draws": [0, 2, "2", 1.5],
}


@by_terms
@pytest.mark.parametrize("field", MISTAKES)
def test_a_mutated_record_is_refused(terms: Terms, field: str) -> None:
    """A record with a mistake in any field breaks the schema, or a rule by which `consume` refuses it."""
    about, sent = descriptor(terms, NOON), record(terms, NOON, "0")
    for mistake in MISTAKES[field]:
        mutated = changed(sent, **{field: mistake})
        if json.loads(mutated) == json.loads(sent) or _is_allowed(terms, field, mistake):
            continue
        refused = False
        try:
            collect([about, mutated])
        except RecordError:
            refused = True
        assert refused or errors("record", mutated), (field, mistake)


def _is_allowed(terms: Terms, field: str, mistake: Any) -> bool:
    """Return whether a change makes another record that is right under these terms."""
    return (terms.shape.is_redrawn and (field, mistake) == ("draws", 2)) or (
        (field, mistake) == ("unit", terms.value_unit)
    )


ACCEPTED = [case for case in contracts.conformance()["cases"] if "accepted" in case]


@pytest.mark.parametrize("case", ACCEPTED, ids=[case["name"] for case in ACCEPTED])
def test_what_the_conformance_file_accepts_is_valid(case: dict[str, Any]) -> None:
    """Schema and cases do not contradict each other."""
    for message in case["messages"]:
        assert errors("descriptor" if "id" in json.loads(message) else "record", message) == []


def test_every_field_of_a_descriptor_is_described() -> None:
    """The schema says of each field what it means."""
    properties = SCHEMAS["descriptor"]["properties"]
    assert [name for name, schema in properties.items() if "description" not in schema] == []


def test_totals_and_statuses_are_valid() -> None:
    """The running total and both statuses are as their schemas have them, and have no other field."""
    sums = Total(parse_time(NOON) - 3_600_000, parse_time(NOON), "kWh", -12345678, 0.25)
    sent = [("total", total.total_message("9f5da9f2", "m1", sums, parse_time(NOON)))]
    sent += [("status", status.OFFLINE), ("status", status.online_message(parse_time(NOON) + 1))]
    for name, message in sent:
        assert errors(name, message) == []
        assert json.loads(message).keys() <= SCHEMAS[name]["properties"].keys()
        for field in SCHEMAS[name]["required"]:
            assert errors(name, without(message, field))
    assert errors("status", '{"v":1,"status":"online"}')


@pytest.mark.parametrize(("rows", "keys"), [(wide_rows(2, 2), {}), (long_rows(2, 1), LONG_KEYS)])
def test_the_manifest_of_an_archive_is_valid(
    tmp_path: Path, rows: list[dict[str, Any]], keys: dict[str, str]
) -> None:
    """The manifest that `sanitise` writes is as its schema has it, has no other field, and lacks none."""
    place = Place.make(tmp_path / "place")
    place.sanitise(save(tmp_path / "in.parquet", rows, LONG if keys else WIDE), **keys)
    facts = manifest_of(place.folder / "out.parquet")
    text = json.dumps(facts)
    assert errors("manifest", text) == []
    assert facts.keys() == SCHEMAS["manifest"]["properties"].keys()
    assert facts["windows"].keys() == SCHEMAS["manifest"]["properties"]["windows"]["properties"].keys()
    assert facts["descriptors"]
    for field in SCHEMAS["manifest"]["required"]:
        assert errors("manifest", without(text.encode(), field))


texts = st.sampled_from([NOON, "2026-11-20T13:00:00.5+01:00", "noon", ""])
rows = st.fixed_dictionaries(
    {"start": texts, "end": texts, "price": st.sampled_from([0.25, -1, "0.25", None, True])}
)


@given(st.one_of(rows, st.lists(rows, max_size=2), st.integers(), st.just({"start": NOON})))
def test_prices_are_valid_where_the_agent_reads_them(document: Any) -> None:
    """The agent reads exactly the price messages that are valid, within the range of a price."""
    is_read = False
    with suppress(PayloadError):
        decode_prices(json.dumps(document).encode())
        is_read = True
    assert is_read == VALID["prices"].is_valid(document)


def test_the_topics_refer_to_the_schemas() -> None:
    """Each reference of the AsyncAPI description leads to a part of it or to a file; each schema is used."""
    document = contract.asyncapi_document()
    references = set(_references(document))
    for reference in references:
        if reference.startswith("#/"):
            _, *path = reference.split("/")
            place: Any = document
            for key in path:
                place = place[key]
        else:
            assert (contracts.FOLDER / reference).is_file()
    assert {f"./{name}.schema.json" for name in SCHEMAS} - references == {"./manifest.schema.json"}
    for channel in document["channels"].values():
        assert all(f"{{{name}}}" in channel["address"] for name in channel["parameters"])
        assert channel["address"].count("{") == len(channel["parameters"])


def _references(place: Any) -> Iterator[str]:
    if isinstance(place, dict):
        if "$ref" in place:
            yield place["$ref"]
        for inner in place.values():
            yield from _references(inner)


@pytest.mark.parametrize("name", [*SCHEMAS, "asyncapi"])
def test_the_command_prints_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`meteragent schema NAME` prints the file of that name, for those who have no clone."""
    assert main(["schema", name]) == 0
    path = f"{name}.json" if name == "asyncapi" else f"{name}.schema.json"
    assert capsys.readouterr().out == (contracts.FOLDER / path).read_text()


def test_the_page_names_every_rule_and_file() -> None:
    """docs/contracts.md has each rule of the contract with its text, and each file."""
    page = contracts.PAGE.read_text()
    assert_renewed(contracts.PAGE, contracts.renewed(page))
    for name in contracts.files():
        assert f"(contracts/{name})" in page
