"""The configuration files of the crowd's demo, for the group, its two operators, and the homes' agent."""

from pathlib import Path

from meteragent.crowd import group as groups
from meteragent.domain.units import HOUR_MS
from meteragent.operators import identity
from simulators.homes.street import READING_MS

NAME = "street"
SLOT_MS = HOUR_MS // 2
PER_SLOT = SLOT_MS // READING_MS
SMALLEST_CROWD = 10
STREAMS = ("alone", "crowd")
"""The agent's streams: in `alone`, every home adds noise; in `crowd`, the two operators do."""

_GROUP = """\
version = 1
name = "{name}"
slot_s = {slot_s}
quantum_wh = "0.5"
level = 1
hide_wh = 110
lowest_wh = -5000
highest_wh = 10000
smallest_crowd = {smallest}
deadline_s = 1200
answer_s = 86400
"""

_OPERATOR = """\
group_file = "{folder}/group.toml"
identity_file = "{folder}/{role}.key"

[broker]
url = "{url}"
protocol = "3.1.1"

[store]
path = "{folder}/{role}.db"
"""

_AGENT = """\
[store]
path = "{folder}/agent.db"

[[stream]]
name = "alone"
[stream.source]
{source}
[stream.privacy]
preset = "appliance"   # hides what the group hides: 110 Wh in each half hour, at level 1
[stream.sink]
protocol = "3.1.1"
topic = "private/{{meter}}/power"

[[stream]]
name = "crowd"
[stream.source]
{source}
[stream.sink]
protocol = "3.1.1"
[stream.sink.crowd]
group = "{folder}/group.toml"
id = "{id}"
"""

_SOURCE = """\
url = "{url}"
protocol = "3.1.1"     # all that the embedded broker speaks
topic = "meters/{{meter}}/power"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"
"""


def write(folder: Path, url: str, homes: int) -> None:
    """Create the operators' identities, and write group.toml, leader.toml, helper.toml and agent.toml."""
    text = _GROUP.format(name=NAME, slot_s=SLOT_MS // 1000, smallest=min(homes, SMALLEST_CROWD))
    for role in groups.ROLES:
        key = identity.create(folder / f"{role}.key")
        text += f'[{role}]\nname = "{role}"\nidentity = "{key.public.hex()}"\n'
        operator = _OPERATOR.format(folder=folder.as_posix(), role=role, url=url)
        (folder / f"{role}.toml").write_text(operator, encoding="utf-8")
    (folder / "group.toml").write_text(text, encoding="utf-8")
    source, group_id = _SOURCE.format(url=url), groups.parse_group(text).id.hex()
    agent = _AGENT.format(folder=folder.as_posix(), source=source, id=group_id)
    (folder / "agent.toml").write_text(agent, encoding="utf-8")
