"""What `make boot` runs, without a booted system: the commands of the pages, its judge, its refusals."""

import pytest

from tests.brokers.root import Missing
from tests.commands import boot
from tests.commands.systems import debian, fleets, pages, services, trial, users
from tests.commands.systems.debian import Failed


@pytest.mark.parametrize(
    ("page", "heading", "count"),
    [
        ("docs/install.md", "## Debian package", 2),
        ("docs/install.md", "## Virtual environment", 3),
        ("docs/install.md", "## One user, without root", 3),
        ("docs/install.md", "## Docker", 2),
        ("docs/install.md", "## Podman", 2),
        ("docs/install.md", "## Compose", 2),
        ("docs/install.md", "## Packages by hash", 1),
        ("docs/operate.md", "## Update and roll back", 2),
        ("docs/operate.md", "## Back up and restore", 2),
        (fleets.PAGE, "## With systemd", 1),
        (fleets.PAGE, "## More or fewer agents", 4),
    ],
)
def test_the_pages_have_the_commands_that_are_tried(page: str, heading: str, count: int) -> None:
    """Each section has its blocks, and none ends in the middle of a line that goes on."""
    blocks = pages.blocks(page, heading)
    assert len(blocks) == count
    assert not any(block.rstrip().endswith("\\") for block in blocks)


def test_a_comment_in_a_block_is_no_heading() -> None:
    """A section ends at the next heading of its level, and an absent heading is an error."""
    assert len(pages.blocks("docs/install.md", "## Without a network")) == 2
    with pytest.raises(ValueError, match="no heading"):
        pages.blocks("docs/install.md", "## Nowhere")


def test_installations_leave_one_step_to_a_person() -> None:
    """The configuration is edited before the agent starts."""
    for heading, number, start in (
        ("## Debian package", 0, "enable --now"),
        ("## Virtual environment", 1, "enable --now"),
        ("## Docker", 0, "docker run"),
    ):
        before, after = pages.EDITOR.split(pages.blocks("docs/install.md", heading)[number])
        assert start in after
        assert start not in before


@pytest.mark.parametrize("slots", [[0, 10, 60, 65], [0, 5, 10, 60, 70], [0, 5, 50, 60, 65]])
def test_a_fleet_that_releases_wrongly_fails(slots: list[int]) -> None:
    """A slot from before the change that is missing or leaves afterwards, and one missing after it."""
    assert fleets.judged([0, 5, 10], [0, 5, 10, 60, 65], 60) == 5
    with pytest.raises(Failed):
        fleets.judged([0, 5, 10], slots, 60)


def test_a_login_is_of_the_source_and_pseudonyms_are_of_the_sink() -> None:
    """The source is at the port that asks for a login; the sink's is open."""
    text = services.with_login(trial.configuration("meteragent.db"))
    source, _, sink = text.partition("[sink]")
    assert f":{services.LOGIN_PORT}" in source
    assert "password_file" in source
    assert ":1883" in sink
    assert "pseudonym_key_file" in sink


def test_a_short_configuration_has_no_preset() -> None:
    """The slots of the trial replace those that init wrote."""
    text = users.shortened('[source]\nkind = "power"\n\n[privacy]\npreset = "appliance"\n\n[sink]\n')
    assert "preset" not in text
    assert text.count("[privacy]") == 1


def test_a_machine_without_name_spaces_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed, and is no failure; an unknown part is an error."""

    def refuse() -> None:
        raise Missing("the kernel does not allow name spaces")

    monkeypatch.setattr(debian, "must_be_possible", refuse)
    assert boot.main([]) == 0
    assert capsys.readouterr().out == "NOT RUN: booted systems: the kernel does not allow name spaces\n"
    with pytest.raises(SystemExit):
        boot.main(["nothing"])
