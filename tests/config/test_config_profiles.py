"""Profiles of one's own: the files beside a configuration, and what is refused of them."""

from pathlib import Path

import pytest

from meteragent import config
from meteragent.config.source import has_times
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError
from tests.decode.test_profile_file import HEAD, POWER, SOURCE
from tests.support.configurations import refused, written

MINE = HEAD + SOURCE + POWER


def home(folder: Path, profile: str = "my-meter", **files: str) -> Path:
    """A configuration that names a profile, with files of profiles beside it."""
    (folder / "profiles").mkdir()
    for name, text in files.items():
        (folder / "profiles" / f"{name.replace('_', '-')}.toml").write_text(text)
    path = folder / "home.toml"
    path.write_text(written(source=f"profile = '{profile}'"))
    return path


def test_a_profile_beside_the_configuration_is_used(tmp_path: Path) -> None:
    """The stream reads what the file says, exactly, in the stream's unit."""
    (stream,) = config.load(home(tmp_path, my_meter=MINE)).stream
    (reading,) = config.build_decoder(stream.source)(b'{"now": {"p": 0.4321}}')
    assert (reading.time_ms, reading.value_u) == (None, 432_100_000)
    assert not has_times(stream.source)


def test_nested_streams_have_it_too(tmp_path: Path) -> None:
    """Streams that a table's shares make read as the table does."""
    path = home(tmp_path, my_meter=MINE)
    shares = "shares = { '30min' = 0.7, '1d' = 0.3 }"
    path.write_text(written(source="profile = 'my-meter'", privacy=shares))
    streams = config.load(path).stream
    assert len(streams) == 2
    assert all(config.build_decoder(stream.source)(b'{"now": {"p": 1}}') for stream in streams)


def test_a_profile_that_is_wrong_is_told_with_the_configuration(tmp_path: Path) -> None:
    """Errors of all files come at once, each with its file; a refused profile is not also unknown."""
    path = home(tmp_path, my_meter=MINE.replace("kind", "knid"), other="name = 3")
    path.write_text(path.read_text().replace("kind = ", "knid = "))
    told = str(refused(lambda: config.load(path))).splitlines()
    assert told[0].startswith(f"{path}:")
    assert "source.knid" in told[0]
    assert "source.profile" not in "".join(told)
    assert (
        f"{tmp_path / 'profiles' / 'my-meter.toml'}:14: quantity.power.knid: found an unknown key; "
        in told[1]
    )
    assert sum("other.toml" in line for line in told) >= 6


def test_a_file_that_nobody_names_is_refused_too(tmp_path: Path) -> None:
    """A file that is wrong is found before somebody uses it."""
    error = refused(lambda: config.load(home(tmp_path, "json", my_meter="[")))
    assert error.file == str(tmp_path / "profiles" / "my-meter.toml")


def test_a_built_in_name_is_taken(tmp_path: Path) -> None:
    """A profile with a built-in profile's name is refused: nobody could tell which of them is meant."""
    taken = MINE.replace("my-meter", "glow")
    error = refused(lambda: config.load(home(tmp_path, "number", glow=taken)))
    assert (error.key, error.line) == ("name", 1)
    assert "no built-in profile" in error.expected


def test_a_name_that_is_misspelt_is_told(tmp_path: Path) -> None:
    """The nearest name may be that of a profile of one's own; the list begins with those."""
    error = refused(lambda: config.load(home(tmp_path, "my-meeter", my_meter=MINE)))
    assert error.key == "source.profile"
    assert error.meant == "'my-meter'"
    assert "device: my-meter, shelly-gen2-em" in error.expected


def test_all_profiles_of_a_folder(tmp_path: Path) -> None:
    """One's own come first; a file that is wrong is refused; no folder is no profile."""
    home(tmp_path, my_meter=MINE)
    assert list(config.all_profiles(tmp_path / "profiles")) == ["my-meter", *PROFILES]
    assert list(config.all_profiles(tmp_path / "nothing")) == list(PROFILES)
    (tmp_path / "profiles" / "a.toml").write_bytes(b"\xff")
    assert "UTF-8" in str(refused(lambda: config.all_profiles(tmp_path / "profiles")))


def test_a_configuration_without_a_file_has_none() -> None:
    """A text knows the built-in profiles only."""
    with pytest.raises(ConfigError):
        config.parse(written(source="profile = 'my-meter'"))
