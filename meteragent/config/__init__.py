"""The configuration: one TOML file, parsed once into frozen models, or refused with all its errors.

Settings that would break the promise are refused here, before anything runs. `model` lists the keys, `form`
and `refuse` find all errors of a file at once, `tables` determines the streams of a file, and `terms` turns
keys into the parameters of the mechanism.
"""

import contextlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from meteragent.config.files import (
    file_refusals,
    missing_extra_refusals,
    read_endpoint,
    read_password,
    read_secret,
    sink_broker,
    store_folder_refusals,
    world_readable_files,
)
from meteragent.config.form import EXPLAINED_MAX, RepairedDocument
from meteragent.config.model import Config, Page, Receiver, Stream
from meteragent.config.profiles import PROFILES_FOLDER, all_profiles, own_profiles
from meteragent.config.refuse import all_refusals
from meteragent.config.refuse.readings import largest_loss, reading_refusals
from meteragent.config.shapes import FULL_PRESETS
from meteragent.config.source import build_decoder, forget_ms, topic_of, topics_formula
from meteragent.config.tables import expand_tables, sent_to, streams_by_receiver, with_actions
from meteragent.config.tariff import MonthWindows, ordinary_month, tariffs_of
from meteragent.config.terms import budget, distinct_terms, other_charges_per_day, schedule, sink_url, terms
from meteragent.decode.profile import Profile
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import count_text
from meteragent.domain.refusal import locate, parse_toml, raise_all, text_of_file

__all__ = ["FULL_PRESETS", "PROFILES_FOLDER", "Config", "MonthWindows", "Page", "Receiver", "Stream"]
__all__ += ["all_profiles", "budget", "build_decoder", "distinct_terms", "file_refusals", "forget_ms"]
__all__ += ["largest_loss", "load", "locate_error", "missing_extra_refusals", "ordinary_month"]
__all__ += ["other_charges_per_day", "parse", "parse_or_none", "read_endpoint", "read_password"]
__all__ += ["read_secret", "reading_refusals", "schedule", "sent_to", "sink_broker", "sink_url"]
__all__ += ["store_folder_refusals", "streams_by_receiver", "tariffs_of", "terms", "topic_of"]
__all__ += ["topics_formula", "with_actions", "world_readable_files"]


def load(path: Path, draft: str | None = None) -> Config:
    """Return the checked configuration of a file, or a draft of it, with the `profiles` next to the file.

    Raises ConfigError with all errors.
    """
    profiles, refusals = own_profiles(path.parent / PROFILES_FOLDER)
    errors = [error for refusal in refusals.values() for error in refusal.errors]
    try:
        config = parse(text_of_file(path) if draft is None else draft, profiles).at(path)
    except ConfigError as refusal:
        # A profile whose file is refused must not also be reported as unknown.
        names = {repr(name) for name in refusals}
        unrelated_errors = [
            error for error in refusal.errors if not (error.key.endswith(".profile") and error.found in names)
        ]
        errors = [*(locate_error(error, path) for error in unrelated_errors), *errors]
    raise_all(errors)
    return config


def parse(text: str, profiles: Mapping[str, Profile] = MappingProxyType({})) -> Config:
    """Parse and check a configuration; `profiles` are those that are not built in.

    Raises ConfigError with all errors; those beyond the first `EXPLAINED_MAX` are only counted.
    """
    document = parse_toml(text)
    form = RepairedDocument(document, text, profiles)
    config = form.read_config()
    later_errors = all_refusals(config, form.wrong_paths)
    errors = [*form.errors, *map(form.locate_error, later_errors)]
    if len(errors) > EXPLAINED_MAX:
        expected = "a file without the errors above; correct them first"
        more = count_text(len(errors) - EXPLAINED_MAX, "more error")
        errors[EXPLAINED_MAX:] = [ConfigError("", more, expected)]
    raise_all(errors)
    return expand_tables(config)


def parse_or_none(text: str, profiles: Mapping[str, Profile] = MappingProxyType({})) -> Config | None:
    """Parse a configuration of new streams; return None if the file or one of its streams is refused."""
    try:
        config = parse(text, profiles)
    except ConfigError:
        return None
    return None if reading_refusals(config) else config


def locate_error(error: ConfigError, path: Path) -> ConfigError:
    """Set the file and line of an error and of its inner errors where they are not set; return the error."""
    with contextlib.suppress(OSError, ValueError, RecursionError):  # errors then have keys but no lines
        text = path.read_text("utf-8")
        tomllib.loads(text)
        locate(error.errors, text)
    for problem in (error, *error.errors):
        problem.file = problem.file or str(path)
    return error
