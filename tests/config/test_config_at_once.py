"""All errors of a configuration at once: none hides another, none is a consequence, each has its place."""

from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.config.form import EXPLAINED_MAX
from meteragent.domain.errors import ConfigError
from tests.config.test_config_refuse import REFUSED
from tests.support.configurations import FLAT, refused, streams, written

SECRET = "open-sesame"

BROKEN = """\
[source]
tpoic = "a/{meter}"
kind = "pwoer"
unit = "w"
frobnicate = 3
inflight = 0
[window]
step = "7min"
bands = ["00-07", "7-9", "x"]
[privcy]
level = 0
[snik]
topic = "b/{meter}"
lateness = "3s"
[stoer]
max_mb = 0
"""


def errors(text: str) -> tuple[ConfigError, ...]:
    """What is refused of a configuration."""
    return refused(lambda: config.parse(text)).errors


def places(text: str) -> list[tuple[int | None, str]]:
    """The line and the key of each error."""
    return [(error.line, error.key) for error in errors(text)]


def test_all_errors_are_told_in_the_order_of_their_lines() -> None:
    """Unknown, missing and wrong keys, also those in tables whose name is misspelt, each with its line."""
    assert places(BROKEN) == [
        (2, "source.tpoic"),
        (3, "source.kind"),
        (4, "source.unit"),
        (5, "source.frobnicate"),
        (6, "source.inflight"),
        (9, "window.bands[1]"),
        (9, "window.bands[2]"),
        (10, "privcy"),
        (11, "privcy.level"),
        (12, "snik"),
        (14, "snik.lateness"),
        (15, "stoer"),
        (16, "stoer.max_mb"),
    ]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("source.tpoic", "topic"),
        ("source.kind", "'power'"),
        ("source.unit", "'W'"),
        ("source.frobnicate", None),
        ("privcy", "privacy"),
        ("snik", "sink"),
        ("snik.lateness", "window.lateness"),
        ("stoer", "store"),
    ],
)
def test_what_was_probably_meant_is_named(key: str, meant: str | None) -> None:
    """The nearest key or word; a key of another table with that; nothing where nothing is near."""
    (error,) = [error for error in errors(BROKEN) if error.key == key]
    assert error.meant == meant
    assert (f"did you mean {meant}?" in str(error)) == (meant is not None)


def test_a_file_s_errors_name_the_file(tmp_path: Path) -> None:
    """`load` states file, line, key, value and expected value, one line for each error."""
    path = tmp_path / "home.toml"
    path.write_text(BROKEN)
    told = str(refused(lambda: config.load(path))).splitlines()
    assert len(told) == 13
    assert told[0] == f"{path}:2: source.tpoic: found an unknown key; did you mean topic?"
    assert told[4] == f"{path}:6: source.inflight: found 0; expected a value greater than or equal to 1"


def test_a_missing_key_is_on_the_line_of_its_table() -> None:
    """What is missing is looked for where it belongs; a missing table has no line."""
    assert places("[source]\ntopic = 'm/{meter}'\n\n[sink]\n") == [
        (1, "source.kind"),
        (1, "source.unit"),
        (4, "sink.topic"),
    ]
    assert places("[window]\nlength = '1h'\n") == [(None, "source"), (None, "sink")]
    assert [error.found for error in errors("")] == ["nothing", "nothing"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (FLAT.replace('topic = "meters', 'tpoic = "meters'), ["source.tpoic"]),
        (FLAT.replace("[sink]", "[snik]"), ["snik"]),
        (FLAT.replace("[source]", "[sources]"), ["sources"]),
        (FLAT.replace("kind", "knid"), ["source.knid"]),
        (FLAT.replace("[store]", "[stroe]\nmax_mb = 9"), ["stroe"]),
        (streams(("a", "m/{meter}", "'x/{meter}'")).replace("[[stream]]", "[[steram]]"), ["steram"]),
        (written(privacy="budget = { levle = 99, per = '1d' }"), ["privacy.budget.levle"]),
    ],
)
def test_a_typo_is_told_once_and_not_its_consequence(text: str, keys: list[str]) -> None:
    """What is missing only because its name is misspelt is the misspelt key's error, and no other."""
    if "[[steram]]" in text:
        text = text.replace("[stream.sink]", "[steram.sink]")
    assert [error.key for error in errors(text)] == keys


def test_what_is_in_a_misspelt_table_is_checked_too() -> None:
    """A table with a wrong name holds what its right name says, also for what is refused of its values."""
    text = FLAT.replace("[privacy]", "[privcy]\nradius = 220.5").replace("[window]", "[windw]\nclock = 'sun'")
    assert {error.key for error in errors(text)} == {"privcy", "windw", "privacy.radius", "windw.clock"}
    assert all(error.line is not None for error in errors(text))


@pytest.mark.parametrize("what", REFUSED)
def test_one_mistake_is_one_error(what: str) -> None:
    """What is wrong once is told once: nothing that follows from it is refused beside it."""
    keys, key, _, _ = REFUSED[what]
    assert [error.key for error in errors(written(**{key.partition(".")[0]: keys}))] == [key]


SECTIONS = {
    section: sorted(what for what, row in REFUSED.items() if row[1].startswith(f"{section}."))
    for section in ("source", "window", "privacy", "sink", "store")
}
mistakes = st.fixed_dictionaries(
    {}, optional={section: st.sampled_from(names) for section, names in SECTIONS.items()}
).filter(bool)


def keys_of(names: Collection[str]) -> set[str]:
    """The keys that are refused when all these mistakes are in one file."""
    return {
        error.key
        for error in errors(written(**{REFUSED[n][1].partition(".")[0]: REFUSED[n][0] for n in names}))
    }


@given(mistakes)
def test_mistakes_do_not_hide_each_other_nor_make_new_ones(chosen: dict[str, str]) -> None:
    """Of mistakes in several tables each is told that would be told alone, but for what depends on another.

    A mistake may be left out only where its check reads a key that is wrong: then the other one is told.
    """
    alone = {REFUSED[name][1] for name in chosen.values()}
    together = keys_of(chosen.values())
    assert together
    assert together <= alone | {"window.gap", "privacy.radius", "privacy.quantum", "window.length"}
    by_form = {
        "source.inflight",
        "source.max_payload",
        "sink.spread",
        "store.max_mb",
        "privacy.level",
        "window.clock",
    }
    assert alone & by_form <= together


def test_streams_do_not_hide_each_other() -> None:
    """Each stream is checked, whatever is wrong with others; what two do to each other if both are sound."""
    text = streams(
        ("a", "m/{meter}", "'x/{meter}'\ninflight = 0"),
        ("b", "m/{meter}", "'x/{meter}'"),
        ("c", "m/x", "'y/{meter}'"),
        ("d", "m/{meter}", "'z'"),
    )
    assert [error.key for error in errors(text + "[stream.privacy]\nradius = 0.5\n")] == [
        "stream[0].sink.inflight",
        "stream[1].sink.topic",
        "stream[2].source.topic",
        "stream[3].sink.topic",
        "stream[3].privacy.radius",
    ]


@pytest.mark.parametrize(
    ("text", "key", "found"),
    [
        ("stream = 3", "stream", "3"),
        ("stream = []", "stream", "[]"),
        ("stream = [1]", "stream[0]", "1"),
        (f"[stream]\npassword = '{SECRET}'", "stream", "a table"),
        (f"stream = [['{SECRET}']]", "stream[0]", "['open-sesame']"),
    ],
)
def test_streams_of_another_kind_are_refused(text: str, key: str, found: str) -> None:
    """The error for a value that is not a list of tables says so, and not what a table needs."""
    (error,) = errors(text)
    assert (error.key, error.found) == (key, found)


@pytest.mark.parametrize(
    "text",
    [
        written(source=f"username = 'u'\npassword = '{SECRET}'"),
        written(source=f"username = {{ password = '{SECRET}' }}"),
        written(sink=f"pseudonym_key_file = ['{SECRET}']"),
        written(source="username = 'u'\npassword_file = 73577357"),
        written(source=f"password_file = {{ text = '{SECRET}' }}"),
        f"source = {{ password = '{SECRET}', topic = [['{SECRET}']] }}",
        written() + f"[page]\ntoken = '{SECRET}'\n",
    ],
)
def test_no_secret_is_repeated(text: str) -> None:
    """A secret written where its file belongs, or under a key that does not exist, is in no error."""
    told = str(refused(lambda: config.parse(text)))
    assert SECRET not in told
    assert "73577357" not in told


def test_a_secret_in_the_place_of_its_file_s_name_is_not_repeated() -> None:
    """A password in `password_file` is not a file; the error names the key and not the password."""
    error = refused(lambda: config.read_secret("source.password_file", Path(SECRET)))
    assert SECRET not in str(error)
    assert error.found.endswith(": no such file or directory")


def test_an_address_for_a_key_is_not_repeated() -> None:
    """An address with a password that stands where a key belongs is in no text."""
    text = FLAT + f"\"mqtt://u:{SECRET}@h\" = 1\n'mqtt://u:{SECRET}@g' = 2\n"
    error = refused(lambda: config.parse(text))
    assert len(error.errors) == 2
    assert SECRET not in str(error)


def test_a_long_value_is_cut() -> None:
    """An error is one line to read, however long the value is."""
    (error,) = errors(written(source=f"profile = '{'x' * 10_000}'"))
    assert len(str(error)) < 1000


@pytest.mark.parametrize(("more", "said"), [(23, "23 more errors"), (1, "1 more error")])
def test_a_file_of_nonsense_has_a_bounded_number_of_errors(more: int, said: str) -> None:
    """Of very many errors the first are told, and how many more there are."""
    listed = errors(FLAT + "".join(f"key{n} = {n}\n" for n in range(EXPLAINED_MAX + more)))
    assert len(listed) == EXPLAINED_MAX + 1
    assert listed[-1].found == said


@pytest.mark.parametrize(
    ("text", "line"), [("[source]\na = = 1\n", 2), ("a = [\n1,\n", 2), ("[a]\n[a]\n", 2), ("a = 'b\n", 1)]
)
def test_what_is_no_toml_has_a_line(tmp_path: Path, text: str, line: int) -> None:
    """A syntax error is on the line where reading ended."""
    path = tmp_path / "home.toml"
    path.write_text(text)
    error = refused(lambda: config.load(path))
    assert (error.line, error.expected) == (line, "TOML")
    assert str(error).startswith(f"{path}:{line}: found text that is not TOML (")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("shelly-gen2", "'shelly-gen2-em' or 'shelly-gen2-em1' or 'shelly-gen2-switch' or 'shelly-gen2-pm1'"),
        ("shelly-gne1", "'shelly-gen1'"),
        ("dsmr", "'dsmr-p1' or 'dsmr-reader' or 'dsmr-reader-topics'"),
        ("jsn", "'json'"),
        ("abcdefgh", None),
    ],
)
def test_the_profile_that_was_meant_begins_as_it_is_written(name: str, meant: str | None) -> None:
    """A beginning names all profiles that begin so; a typo the nearest; what is like none, none."""
    (error,) = errors(written(source=f"profile = '{name}'"))
    assert (error.key, error.meant) == ("source.profile", meant)
    assert error.expected.startswith("'number' or 'json', or a device: shelly-gen2-em, ")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("localhost:1883", "an address that does not begin with mqtt:// or mqtts://"),
        ("http://host", "an address that does not begin with mqtt:// or mqtts://"),
        ("mqtt://", "an address without a host"),
        ("mqtt://host:0", "a port that is not a number from 1 to 65535"),
        ("mqtt://u@host", "an address with a user name or password, which belong in the keys of those names"),
        ("mqtt://host/topic", "an address with a path after the port"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(url: str, found: str) -> None:
    """An address is not repeated, so the text says what it is that is wrong with it."""
    (error,) = errors(written(source=f"url = '{url}'", sink="url = 'mqtt://far'"))
    assert (error.key, error.found) == ("source.url", found)
    assert error.expected == "mqtt://host[:port], or mqtts://host[:port] with its files"
