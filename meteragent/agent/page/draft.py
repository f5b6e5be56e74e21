"""A draft of the configuration: what `check` says of it, and how it differs from the file. Never stored."""

import difflib
import shlex
from pathlib import Path

from meteragent import config as settings
from meteragent.agent.page.view import View
from meteragent.domain.errors import ConfigError
from meteragent.domain.refusal import parse_toml, raise_all
from meteragent.report import event, terminal, whole
from meteragent.report.language import say


def describe_draft(view: View, text: str | None) -> dict[str, str]:
    """Return the promises or the refusals of a draft, its difference from the file, and how to install it.

    Without a text, the file itself is described. What is installed on this machine, and which files exist, is
    examined only by `check` itself.
    """
    path = view.config.path or Path()
    file_text = path.read_text("utf-8", "replace") if path.is_file() else ""
    text = file_text if text is None else text
    try:
        promise = _promises(view, path, text)
    except ConfigError as refusal:
        promise = "\n".join(f"{error.line or '-'}: {error.text}" for error in refusal.errors)
    lines = file_text.splitlines(keepends=True), text.splitlines(keepends=True)
    difference = "".join(difflib.unified_diff(*lines, path.name, "draft.toml"))
    command = f"meteragent check draft.toml && sudo cp draft.toml {shlex.quote(str(path))}"
    return {"text": text, "said": promise, "difference": difference, "command": command}


def _promises(view: View, path: Path, text: str) -> str:
    """Return what `check` says of a draft; streams that run now have been admitted. Raises ConfigError."""
    if "crowd" in str(parse_toml(text)):  # the file of a group would be read
        return say("draft.group")
    names = {stream.name for stream in view.config.stream}
    draft = settings.with_actions(settings.load(path, text), view.actions)
    raise_all(refusal for stream, refusal in settings.reading_refusals(draft) if stream.name not in names)
    guarantees = [whole.compute_whole_guarantee(draft, item, event.EVENTS, names) for item in draft.stream]
    return terminal.guarantees_text(guarantees, draft)
