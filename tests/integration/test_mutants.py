"""What the crash tests would notice: agents with a law broken on purpose fail them."""

from pathlib import Path

from tests.integration.judge import violations
from tests.integration.kills import PLAN, kill_agent
from tests.support.broker import Broker

KILLS = 4
BURST = 600


async def test_acknowledgement_on_receipt_is_noticed(broker: Broker, tmp_path: Path) -> None:
    """A mutant that acknowledges on receipt releases values that were not fed.

    Two kills at least come after releases. Each loses the reading that stands of 6 meters: up to 10 s
    of 0 to 6 kW uniformly, out of 60 s. That this moves no mean by 1 W has a chance below 0.1 per
    meter and kill, 1e-12 together.
    """
    mutant = ("tests.integration.altered", "acknowledges_on_receipt")
    outcome = await kill_agent(broker, tmp_path, [PLAN], KILLS, BURST, *mutant)
    found = violations(PLAN, outcome.fed, outcome.receiver.messages)
    assert any(violation.kind == "wrong" for violation in found)


async def test_redrawn_noise_is_noticed(broker: Broker, tmp_path: Path) -> None:
    """A mutant that draws the noise of open windows again releases two values of one slot.

    Two kills at least come after releases. The windows of 6 meters end independently, and a window
    without a closed slot (one part in 5) is the only one to show nothing; that the new noise is
    the old one has a chance below 0.01 a slot. Together: below 1e-7.
    """
    plan = PLAN.noisy
    mutant = ("tests.integration.altered", "redraws_on_restart")
    outcome = await kill_agent(broker, tmp_path, [plan], KILLS, BURST, *mutant)
    found = violations(plan, outcome.fed, outcome.receiver.messages)
    assert any(violation.kind == "two values" for violation in found)
