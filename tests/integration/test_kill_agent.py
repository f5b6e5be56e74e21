"""kill -9 of the agent at random moments under a burst feed."""

from pathlib import Path

from tests.integration import law
from tests.integration.judge import noise
from tests.integration.kills import PLAN, kill_agent
from tests.support.broker import Broker

KILLS = 25
BURST = 500


async def test_killed_again_and_again_it_forgets_nothing(broker: Broker, tmp_path: Path) -> None:
    """No slot is missing, none has two values among all messages ever received, none was not fed.

    With real noise (level 1, radius 220 W) beside negligible noise: every slot has one value there
    too, and the noise its law (a right one is rejected with a chance of 2e-6). The ledger is equal to
    what was released.
    """
    outcome = await kill_agent(broker, tmp_path, [PLAN, PLAN.noisy], KILLS, BURST)
    outcome.agent.assert_kept(outcome.fed, outcome.receiver)
    assert outcome.lives >= KILLS // 2
    windows = noise(PLAN.noisy, outcome.fed, outcome.receiver.messages)
    assert law.passes_scale_test(windows, PLAN.noisy.epsilon)
    assert law.rest_p(windows) > law.ALARM
