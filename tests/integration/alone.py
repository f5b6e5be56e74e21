"""The agent where nobody else is: `python -m tests.integration.alone run CONFIG`.

It opens a new meter's first window without listening for another agent before, which takes ten seconds.
What that listening does is tested in test_two_agents.py, by the program as it is.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from meteragent import cli
from meteragent.agent import environment


def listen_for(listen_s: float) -> None:
    """Have the command's agents listen for another for this time before a meter's first window."""
    system: Callable[..., environment.Environment] = environment.system_environment

    def alone(*arguments: Any) -> environment.Environment:
        """Return the system's environment, with another time to listen."""
        return replace(system(*arguments), listen_s=listen_s)

    vars(environment)[system.__name__] = alone


if __name__ == "__main__":
    listen_for(0)
    sys.exit(cli.main(sys.argv[1:]))
