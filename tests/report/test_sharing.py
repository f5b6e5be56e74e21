"""Who gets what, and what it costs together, in the words and the JSON of `check`."""

import json

from meteragent import config
from meteragent.domain import loads
from meteragent.report import markdown, sharing, terminal, together
from meteragent.store.grants import Action
from tests.support.configurations import written
from tests.support.not_run import ROOT

VERBS = {"utility": "pause", "tariff-app": "resume", "research": "end"}
SETTINGS = config.load(ROOT / "deploy" / "two-receivers.toml")


def test_every_receiver_has_a_line() -> None:
    """The line names preset, broker, topic and times; a paused receiver is said to get nothing."""
    text = " ".join(terminal.guarantees_text([], SETTINGS).split())
    gets = "gets numbers under the preset appliance"
    assert f"utility {gets}, at mqtt://127.0.0.1:1883, topic utility/{{meter}}/power" in text
    assert f"tariff-app {gets}, at mqtts://app.example, topic homes/{{meter}}/power, until 2027" in text
    assert all(
        row.text in markdown.statement_text(SETTINGS).replace("\n  ", " ")
        for row in sharing.receivers(SETTINGS)[:1]
    )
    paused = config.parse((ROOT / "deploy" / "two-receivers.toml").read_text().replace("false", "true"))
    assert sharing.receivers(paused)[2].text.endswith("paused, so it gets nothing now")
    assert paused.receiver[2].verbs == ["end"]
    assert together.level_together(paused) < together.level_together(SETTINGS)


def test_the_statement_says_what_leaves_to_whom() -> None:
    """To each receiver under its name, to none that is paused, and nothing of a stream without any."""
    statement = " ".join(markdown.statement_text(SETTINGS).split())
    for name in ("utility", "tariff-app", "research"):
        assert f"To {name}, at the broker " in statement
    paused = config.parse((ROOT / "deploy" / "two-receivers.toml").read_text().replace("false", "true"))
    statement = " ".join(markdown.statement_text(paused).split())
    assert "To utility, at the broker " in statement
    assert "To research, at the broker " not in statement
    assert "Nothing: all receivers of this stream are paused or have ended." in statement


def test_levels_of_presets_add_and_of_receivers_do_not() -> None:
    """Three receivers of two presets cost what the two streams cost: a kettle, once in each."""
    terms = [config.terms(stream) for stream in SETTINGS.stream]
    assert len(terms) == 2
    assert together.level_together(SETTINGS) == sum(loads.level(item, together.CHANGE_WH) for item in terms)
    assert together.epsilon_per_day(SETTINGS) == sum(item.epsilon_per_w_day for item in terms)


def test_json_says_the_same() -> None:
    """Receivers, and what they cost together as exact numbers; a file with a sink has neither."""
    document = json.loads(terminal.guarantees_json([], SETTINGS))
    assert [row["name"] for row in document["receivers"]] == ["utility", "tariff-app", "research"]
    assert document["together"]["moved_wh"] == "110"
    assert json.loads(terminal.guarantees_json([], config.parse(written()))) == {"streams": []}


def test_an_action_counts_like_the_file() -> None:
    """A stream that nobody gets any more costs nothing; the page shows the first receiver that gets one."""
    actions = {name: Action(1, name, verb, "page", 0) for name, verb in VERBS.items()}
    after = config.with_actions(SETTINGS, actions)
    assert [row.text.rpartition(", ")[2] for row in sharing.receivers(after)[1:]] == [
        "until 2027-12-30T23:00:00Z",
        "so it gets nothing more",
    ]
    assert [item.verbs for item in after.receiver] == [["resume", "end"], ["pause", "end"], []]
    [appliance, day] = after.stream
    assert appliance.sink.topic == "homes/{meter}/power"
    assert [appliance.is_received, day.is_received] == [True, False]
    assert together.epsilon_per_day(after) == config.terms(appliance).epsilon_per_w_day
    assert config.other_charges_per_day(after, appliance) == 0
    resumed = config.with_actions(after, {})
    assert resumed == SETTINGS
