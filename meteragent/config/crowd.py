"""A stream that counts in the total of a group, whose file sets the stream's windows, noise and topic."""

from fractions import Fraction

from meteragent.config import broker
from meteragent.config.model import Config, Stream
from meteragent.crowd.group import Group, parse
from meteragent.domain.refusal import text_of_file
from meteragent.domain.shapes import Metric, Space


def joined(config: Config) -> Config:
    """Return a configuration whose streams with `sink.crowd` have the terms of their groups.

    Raises ConfigError if a group's file cannot be used.
    """
    return config.model_copy(update={"stream": tuple(counted(stream) for stream in config.stream)})


def counted(stream: Stream) -> Stream:
    """Return a stream with the terms of its group, or the stream itself if it has no group.

    Raises ConfigError as `group_of` does.
    """
    if stream.sink.crowd is None:
        return stream
    group = group_of(stream.sink.crowd)
    privacy = {
        "level": group.level,
        "radius": group.hide_wh,
        "quantum": group.quantum_wh,
        "hide": None,
        "space": Space.SHARE,
        "metric": Metric.LINF,
    }
    window = {"length": 1000 * group.slot_s, "step": None, "blocks": None}
    sink = {"topic": f"crowd/{group.name}/report/{{meter}}"}
    return stream.changed(group=group, window=window, privacy=privacy, sink=sink)


def group_of(settings: broker.Crowd) -> Group:
    """Read the file of a group. Raises ConfigError if it is refused."""
    return parse(text_of_file(settings.group))


def limits_w(group: Group) -> tuple[Fraction, Fraction]:
    """Return the group's limits for a home's mean power over a slot, in W."""
    return group.lowest_wh * 3600 / group.slot_s, group.highest_wh * 3600 / group.slot_s
