"""One guarantee in the same words in `check`, its statement, the page, `plan` and the demo."""

import json

import pytest

from meteragent import config
from meteragent.agent.page import serialise
from meteragent.cli import main
from meteragent.report import guarantee, markdown, terminal, wording
from meteragent.report.guarantee import Guarantee
from meteragent.report.language import say
from meteragent.report.plan.render import guess_limit_text
from tests.support.configurations import energy, streams, written
from tests.support.not_run import ROOT
from tests.support.page_world import PageWorld

TEXTS = ROOT / "meteragent" / "texts" / "en.json"
LOCAL = "timezone = 'Europe/Amsterdam'"
KEPT = "every = '0s'\ndead_band = 0"
SECTIONS: dict[str, dict[str, str]] = {
    "the default": {},
    "readings that follow the load": {"source": KEPT},
    "a dead band": {"source": "every = '10s'\ndead_band = 10"},
    "a register": {
        "source": "kind = 'register'\nunit = 'Wh'\ndead_band = 0.5",
        "window": "lateness = '1min'",
    },
    "intervals": {"source": energy("kWh")},
    "a curve": {"source": "every = '10s'\ndead_band = 10", "privacy": "space = 'curve'"},
    "months": {"window": LOCAL, "privacy": "preset = 'bill'"},
    "a mean day": {"window": LOCAL, "privacy": "preset = 'typical-day'"},
}


def joined(text: str) -> str:
    """Return a text without its line breaks and indents."""
    return " ".join(text.split())


def all_of(promised: Guarantee) -> list[str]:
    """Every sentence that is said of a stream in more than one place."""
    tables = [cell for row in wording.guess_rows(promised) for cell in row]
    costs = [text for _, size, useful in wording.cost_rows(promised) for text in (size, useful)]
    return [
        wording.odds_sentence(promised),
        wording.hidden_sentence(promised),
        wording.in_all_sentences(promised),
        wording.windows_sentence(promised),
        wording.streams_sentence(promised),
        wording.curves_sentence(promised),
        wording.space_sentence(promised),
        wording.loads_sentence(promised),
        say("guess.title"),
        *wording.exposed_sentences(promised),
        *promised.warnings,
        *costs,
        *tables,
    ]


@pytest.mark.parametrize("what", SECTIONS)
def test_all_say_the_promise_in_the_same_words(what: str) -> None:
    """Terminal, statement and page describe a stream in the same sentences."""
    settings = config.parse(written(**SECTIONS[what]))
    promised = guarantee.compute_guarantee(settings.stream[0])
    printed, stated = (
        joined(terminal.guarantees_text([promised], settings)),
        joined(markdown.statement_text(settings)),
    )
    world = PageWorld(**SECTIONS[what])
    views = world.view.streams
    facts = json.loads(serialise.encode_facts(views, [view.promises() for view in views], world.counts, []))
    shown = facts["streams"][0]["own"]
    page = [*shown["said"]["promise"], *shown["does_not_hide"], *shown["warnings"], say("guess.title")]
    assert [text for text in all_of(promised) if text not in printed] == []
    assert [text for text in all_of(promised) if text not in stated] == []
    assert [text for text in all_of(promised)[:9] if text and text not in page] == []
    assert shown["said"]["table"][1:] == [list(row) for row in wording.guess_rows(promised)]
    assert set(wording.exposed_sentences(promised)) <= set(page)


def test_streams_that_add_say_so_everywhere() -> None:
    """Two streams on one meter: terminal and statement have the sentence, once for each stream."""
    settings = config.parse(streams(("one", "m/{meter}", "'a/{meter}'"), ("two", "m/{meter}", "'b/{meter}'")))
    promised = [
        guarantee.compute_guarantee(stream, other_charges=config.other_charges_per_day(settings, stream))
        for stream in settings.stream
    ]
    line = wording.streams_sentence(promised[0])
    assert line.startswith(
        "Streams add up too: a meter that all streams here read is charged epsilon 0.436 per"
    )
    assert joined(terminal.guarantees_text(promised, settings)).count(line) == 2
    assert joined(markdown.statement_text(settings)).count(line) == 2


def test_plan_says_it_as_check_does(capsys: pytest.CaptureFixture[str]) -> None:
    """The success limit in a plan has the words of the table, and the number of its own event."""
    assert main(["plan", "--hide", "kettle", "--share", "half-hour"]) == 0
    told = joined(capsys.readouterr().out)
    assert guess_limit_text(70, "which programme was on, 1 h; a kettle; a TV evening") in told


def test_the_page_s_headings_are_those_of_the_statement() -> None:
    """What is hidden, what is not, and warnings have one title each."""
    settings = config.parse(written())
    page = (ROOT / "meteragent" / "agent" / "page" / "static" / "index.html").read_text()
    assert "{{guess.title}}" in page
    for name in ("title", "not", "warnings"):
        assert f"{{{{hidden.{name}}}}}" in page
        assert say(f"hidden.{name}") in markdown.statement_text(settings)


def test_a_summary_has_three_figures() -> None:
    """The hidden energy, and one home's errors of a number and of a month, each after its label."""
    promised = guarantee.compute_guarantee(config.parse(written()).stream[0], ())
    figures = [("hides", "110 Wh"), ("one number", "311 W"), ("a month of 30 days", "5.9 kWh")]
    assert wording.summary_figures(promised) == figures
    months = guarantee.compute_guarantee(
        config.parse(written(window=LOCAL, privacy="preset = 'bill'")).stream[0], ()
    )
    assert [label for label, _ in wording.summary_figures(months)] == [label for label, _ in figures]


ONCE = ("For any two", "Levels add up over", "success limit, in %", "For the load itself", "useful: an error")


@pytest.mark.parametrize("words", ONCE)
def test_only_the_texts_have_sentences(words: str) -> None:
    """No renderer writes the words of the promise itself."""
    files = [*(ROOT / "meteragent").rglob("*"), *(ROOT / "simulators").rglob("*.py")]
    texts = {path: path.read_text("utf-8") for path in files if path.suffix in {".py", ".js", ".json"}}
    assert [path for path, text in texts.items() if words in text] == [TEXTS]
