"""The `run` command: run the agent until SIGTERM or SIGINT."""

import argparse
import asyncio
import logging
import os
import sys

from meteragent.agent import environment, service
from meteragent.cli import admission
from meteragent.service import boot_clock
from meteragent.service.process import Notify, forbid_dumps, log_to_stderr, run_until_signalled


def run(options: argparse.Namespace) -> int:
    """Run the agent, or a rehearsal; return the exit code. Raises the error that ended the agent."""
    if options.rehearse:
        from meteragent.cli import rehearsal  # noqa: PLC0415  the agent itself does not need it

        return rehearsal.run(options)
    log_to_stderr(logging.getLevelNamesMapping()[options.log_level.upper()])
    settings = admission.load_admitted(options.config, sys.stderr)
    forbid_dumps()
    notify = Notify.of(os.environ, os.getpid())
    agent = service.Agent(settings, environment.system_environment(boot_clock.wall_ms, notify))
    asyncio.run(run_until_signalled(agent.run()))
    return 0
