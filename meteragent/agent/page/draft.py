"""A draft of the configuration: what `check` says of it, and how it differs. The agent writes neither."""

import difflib
import shlex
from pathlib import Path

from meteragent import config as settings
from meteragent.domain.errors import ConfigError
from meteragent.domain.refusal import parse_toml, raise_all
from meteragent.report import event, terminal, whole
from meteragent.report.language import say


def describe_draft(config: settings.Config, text: str | None) -> dict[str, str]:
    """Return the promises or the refusals of a draft, its difference from the file, and how to install it.

    `config` is the configuration that runs, with its file; without a text, the file itself is described. What
    is installed on this machine, and which files exist, is left to `check` itself.
    """
    path = config.path or Path()
    file_text = path.read_text("utf-8", "replace") if path.is_file() else ""
    text = file_text if text is None else text
    try:
        promise = say("draft.group") if _names_group(text) else _promises(settings.load(path, text), config)
    except ConfigError as refusal:
        promise = "\n".join(f"{error.line or '-'}: {error.text}" for error in refusal.errors)
    lines = file_text.splitlines(keepends=True), text.splitlines(keepends=True)
    difference = "".join(difflib.unified_diff(*lines, path.name, "draft.toml"))
    command = f"meteragent check draft.toml && sudo cp draft.toml {shlex.quote(str(path))}"
    return {"text": text, "said": promise, "difference": difference, "command": command}


def _names_group(text: str) -> bool:
    """Return whether a draft names the file of a group, which would be read. Raises ConfigError."""
    return "crowd" in str(parse_toml(text))


def _promises(draft: settings.Config, config: settings.Config) -> str:
    """Return what `check` says of a draft; the streams of the running configuration have run before."""
    names = {stream.name for stream in config.stream}
    raise_all(refusal for stream, refusal in settings.reading_refusals(draft) if stream.name not in names)
    verbs = {receiver.name: receiver.verb for receiver in config.receiver}
    draft = settings.with_actions(draft, verbs)
    guarantees = [
        whole.compute_whole_guarantee(draft, stream, event.EVENTS, names) for stream in draft.stream
    ]
    return terminal.guarantees_text(guarantees, draft)
