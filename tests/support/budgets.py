"""Budgets of the house, and the sentence with which a test refuses what exceeds one."""

import pytest


def assert_within(budget: str, count: int, limit: int) -> None:
    """Fail with a sentence if a count exceeds its budget."""
    if count > limit:
        pytest.fail(
            f"{budget} is {limit:,}, and there are {count:,} now: shorten something, or raise the number in a"
            " commit of its own. CONTRIBUTING.md says under Budgets what it is for.",
            pytrace=False,
        )
