"""The user's own profiles: the files `profiles/*.toml` next to the configuration."""

from collections.abc import Mapping
from pathlib import Path

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError
from meteragent.domain.refusal import locate, raise_all, text_of_file

PROFILES_FOLDER = "profiles"
"""The name of the folder of profiles, which lies next to the configuration."""


def read_profile(path: Path) -> Profile:
    """Read a profile from a file. Raises ConfigError, which lists all errors with file and line."""
    try:
        return _read_new_profile(path)
    except ConfigError as error:
        for problem in (error, *error.errors):
            problem.file = str(path)
        raise


def _read_new_profile(path: Path) -> Profile:
    """Read a profile. Raises ConfigError if it is invalid or has the name of a built-in profile."""
    from meteragent.decode import profile_file  # noqa: PLC0415  an agent without a profile starts faster

    text = text_of_file(path)
    profile = profile_file.parse_profile(text, path.stem)
    if path.stem in PROFILES:
        expected = "a name that no built-in profile has: rename the file and change its `name` key"
        collision = ConfigError("name", repr(path.stem), expected)
        locate([collision], text)
        raise collision
    return profile


def own_profiles(folder: Path) -> tuple[dict[str, Profile], dict[str, ConfigError]]:
    """Return a folder's profiles and the refusals of files that are not profiles, both by name."""
    profiles, refusals = dict[str, Profile](), dict[str, ConfigError]()
    for path in sorted(folder.glob("*.toml")):
        try:
            profiles[path.stem] = read_profile(path)
        except ConfigError as error:
            refusals[path.stem] = error
    return profiles, refusals


def all_profiles(folder: Path) -> Mapping[str, Profile]:
    """Return a folder's profiles, then the built-in ones. Raises ConfigError, which lists all errors."""
    profiles, refusals = own_profiles(folder)
    raise_all(problem for refusal in refusals.values() for problem in refusal.errors)
    return {**profiles, **PROFILES}
