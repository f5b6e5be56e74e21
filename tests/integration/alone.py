"""The agent where nobody else is: `python -m tests.integration.alone run CONFIG`.

It opens a new meter's first window without listening for another agent before, which takes ten seconds.
What that listening does is tested in test_two_agents.py, by the program as it is.
"""

import sys
from functools import partial

from meteragent import cli
from meteragent.agent import Agent
from meteragent.cli import run


def listen_to_nobody() -> None:
    """Have the command's agents listen for no other."""
    assert vars(run)["Agent"] is Agent  # where the command looks it up
    vars(run)["Agent"] = partial(Agent, listen_s=0)


if __name__ == "__main__":
    listen_to_nobody()
    sys.exit(cli.main(sys.argv[1:]))
