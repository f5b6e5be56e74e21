"""No error tells what it was about: texts, arguments, causes and tracebacks, of everything that reads."""

import json
import logging
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config, consume
from meteragent.domain.codec import encode
from meteragent.domain.errors import ConfigError, MeteragentError, RecordError, StoreError
from meteragent.store import Store, outbox, schema
from tests.fuzz.seeds import SEEDS
from tests.support.configurations import written
from tests.support.stores import altering, open_store, opening, persist, sending

CANARY = "271828182845"
FORMS: list[Any] = [
    CANARY,
    int(CANARY),
    float(CANARY),
    [CANARY],
    {CANARY: CANARY},
    f"1/{CANARY}x",
    f"-{CANARY}-",
]
MESSAGES = [one for one in SEEDS["consume"]() if b"\n" not in one]


def told(error: BaseException) -> str:
    """All that a handler could print of an error, with its causes and contexts."""
    seen, all_of = list[str](), [error]
    while all_of:
        one = all_of.pop()
        seen += [str(one), repr(one), repr(one.args), *map(str, getattr(one, "__notes__", []))]
        all_of += [other for other in (one.__cause__, one.__context__) if other is not None]
    return "\n".join([*seen, *traceback.format_exception(error)])


def shown(work: Callable[[], object]) -> str:
    """What is printed of an error of ours that something may raise; empty without one."""
    try:
        work()
    except MeteragentError as error:
        return "".join([repr(error), repr(error.args), *traceback.format_exception(error)])
    return ""


def raised(kind: type[MeteragentError], work: Callable[[], object]) -> str:
    """What the error tells that something raises."""
    with pytest.raises(kind) as caught:
        work()
    return told(caught.value)


@given(message=st.sampled_from(MESSAGES), place=st.integers(0, 40), put=st.sampled_from(FORMS))
def test_of_a_message(message: bytes, place: int, put: object) -> None:
    """A field of a record, a descriptor or a pack that is not as it must be is named, not repeated."""
    document = json.loads(message)
    one = document[place % len(document)] if isinstance(document, list) else document
    one[list(one)[place % len(one)]] = put
    for parse in (consume.Record.parse, consume.Descriptor.parse):
        try:
            parse(json.dumps(document).encode())
        except RecordError as error:
            refusal = error
            assert CANARY not in told(refusal)


@given(
    st.sampled_from(["state", "terms", "total"]), st.integers(0, 20), st.sampled_from(FORMS), st.booleans()
)
def test_of_what_the_store_holds(what: str, place: int, put: object, inside: bool) -> None:
    """States, terms and totals that are not readable are not repeated: a state is noise and energy."""
    commit = opening(1, "m")
    known: Any = {
        "state": json.loads(schema.encode_state(next(state for state in commit.states.values() if state))),
        "terms": json.loads(encode(next(iter(commit.terms.values())))),
        "total": [0, 1, "Wh", 3, 4.0],
    }[what]
    if isinstance(known, list):
        known[place % len(known)] = put
    else:
        known.pop("crc", None)
        table = known["windows"][0] if inside and what == "state" else known
        table[list(table)[place % len(table)]] = put
    text = schema.seal(json.dumps(known)) if what == "state" else json.dumps(known)
    read = {"state": lambda: schema.decode_state(text.encode()), "terms": lambda: schema.decode_terms(text),
            "total": lambda: schema.decode_total(text)}[what]  # fmt: skip
    assert CANARY not in shown(read)


@pytest.mark.parametrize(
    ("table", "column", "put"),
    [
        ("state", "state", CANARY.encode()),
        ("state", "state", CANARY),
        ("terms", "terms", CANARY),
        ("terms", "terms", b"\xff" + CANARY.encode()),
        ("mark", "end_ms", CANARY + "W"),
        ("charge", "epsilon", CANARY + "/0"),
    ],
)
def test_of_a_store_that_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str, column: str, put: object
) -> None:
    """Where a damaged store cannot be replaced, the error and the log name what is wrong, no more."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, opening(1, "m"))
        persist(store, sending(0))
    with altering(path) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (put,))
    with caplog.at_level(logging.DEBUG):
        text = raised(StoreError, lambda: Store.open(path, now_ms=0, recovery_floor_ms=None))
    assert CANARY not in text + caplog.text


def test_of_a_message_that_is_held(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged message is named by its topic, and never repeated."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, sending(0))
    with altering(path) as connection:
        connection.execute("UPDATE outbox SET payload = ?", (CANARY,))
    with caplog.at_level(logging.DEBUG), open_store(path) as store:
        (name,) = outbox.hold_damaged(store)
    assert CANARY not in name + caplog.text


@pytest.mark.parametrize("section", ["source", "sink"])
@pytest.mark.parametrize("key", ["url", "topic", "username", "profile", "protocol", "id", "nothing"])
def test_of_an_address(section: str, key: str) -> None:
    """Wherever an address with a password is written, no refusal repeats it."""
    text = written(**{section: f"{key} = 'mqtt://user:{CANARY}@host'"})
    found = shown(lambda: config.parse(text))
    assert CANARY not in found
    assert found or key == "username"


def test_of_text_that_is_no_toml() -> None:
    """The error for a text that is not TOML states only the position."""
    for line in (f"password = {CANARY}x", f"url = 'mqtt://u:{CANARY}@h", f"= {CANARY}", f'x = "\\{CANARY}"'):
        text = raised(ConfigError, lambda line=line: config.parse(line))  # type: ignore[misc]
        assert CANARY not in text
        assert re.search(r"line \d+|end of document", text)
