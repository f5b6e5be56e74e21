"""The commands that run other services: `collect` and `crowd`."""

from pathlib import Path

from meteragent.cli.usage.command import CONFIG, JSON, LOG_LEVEL, NO_CONFIG, STOPPED, Command, argument

_CHECK = argument("--check", None, "check the configuration and its files")
_IDENTITY_FILE = {"": [argument("file", "FILE", "the identity's file", type=Path)]}
_OPERATOR = {"": [CONFIG], "instead of running": [_CHECK], "log": [LOG_LEVEL]}
_ENDED = {0: STOPPED, 1: "crashed, or the store is in use, restored, moved or lost"}
_NO_IDENTITY = {78: "the file holds no identity, or other users can read it"}
_CROWD_KEY_ACTIONS = {
    "new": (
        "Create an operator's identity, and show its public key for the group's file.",
        Command("crowd key new leader.key", _IDENTITY_FILE, codes=NO_CONFIG),
    ),
    "show": (
        "Show the public key of an identity, but never the secret.",
        Command("crowd key show leader.key", _IDENTITY_FILE, _NO_IDENTITY),
    ),
}
_CROWD_ACTIONS = {
    "leader": (
        "Receive the reports of a group's homes, and publish one total for each slot, with noise.",
        Command("crowd leader leader.toml --check\ncrowd leader leader.toml", _OPERATOR, _ENDED),
    ),
    "helper": (
        "Answer the leader's request for each slot once, with noise.",
        Command("crowd helper helper.toml --check\ncrowd helper helper.toml", _OPERATOR, _ENDED),
    ),
    "ledger": (
        "Show what became of each slot: its answer or total with the number of homes, or why there is none.",
        Command(
            "crowd ledger leader.toml",
            {"": [CONFIG], "output": [JSON]},
            {1: "failed: there is no store yet, or it cannot be read"},
        ),
    ),
    "key": (
        "Create or show an operator's identity.",
        Command(
            "crowd key new leader.key\ncrowd key show leader.key",
            {},
            _NO_IDENTITY,
            actions=_CROWD_KEY_ACTIONS,
            destination="key_action",
        ),
    ),
}


COMMANDS = {
    "collect": Command(
        "collect collect.toml --check\ncollect collect.toml",
        {
            "": [CONFIG],
            "instead of collecting": [
                [_CHECK, argument("--create", None, "create the tables, as their owner")]
            ],
            "log": [LOG_LEVEL],
        },
        {0: STOPPED, 1: "crashed, the database cannot be used, or an extra is missing"},
    ),
    "crowd": Command(
        "crowd key new leader.key\ncrowd leader leader.toml", {}, _ENDED, actions=_CROWD_ACTIONS
    ),
}
