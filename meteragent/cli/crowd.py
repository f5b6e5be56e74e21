"""The `crowd` command: run an operator of a group, show its ledger, create or show its identity."""

import argparse
import asyncio
import json
import logging
import os

from meteragent.cli import common, exit_codes
from meteragent.domain.grid import iso_time
from meteragent.domain.refusal import text_of_file
from meteragent.service.process import Notify, forbid_dumps, log_to_stderr, run_until_signalled


def run(options: argparse.Namespace) -> int:
    """Run the action; return the exit code, which is 1 if the extra `crowd` cannot be used."""
    if common.report_missing_extra("crowd", "crowd"):
        return exit_codes.EXIT_CRASH
    try:
        import meteragent.crowd.seal  # noqa: F401, PLC0415 -- it needs the extra `crowd`
    except ImportError as error:
        return exit_codes.fail(error)
    return _ACTIONS[options.action](options)


def _operate(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, or only check the configuration; return the exit code."""
    from meteragent.operators import clock, configuration, service  # noqa: PLC0415 -- they need the extra

    operation = configuration.load(options.config, options.action)
    if options.check:
        print(f"{options.config}: accepted")
        print(f"{options.action} of the group {operation.group.name}, id {operation.group.id.hex()}")
        print(f"broker: {operation.endpoint.host}, store: {operation.store}")
        return 0
    log_to_stderr(logging.getLevelNamesMapping()[options.log_level.upper()])
    forbid_dumps()
    notify = Notify.of(os.environ, os.getpid())
    operator = service.Service(operation, os.urandom, clock.Clock(), notify)
    asyncio.run(run_until_signalled(operator.run()))
    return 0


def _print_ledger(options: argparse.Namespace) -> int:
    from meteragent.operators import configuration, store  # noqa: PLC0415 -- they need the extra

    # The files that the configuration names are not read: another user may own them.
    settings = configuration.parse(text_of_file(options.config))
    for line in store.read_ledger(settings.store.path):
        slot, at = iso_time(line.slot_s * 1000), iso_time(line.at_s * 1000)
        if options.json:
            print(json.dumps({"slot": slot, "finished": at, "result": line.result, "homes": line.homes}))
        else:
            homes = f"{line.homes:,}" if line.homes else "-"  # 0 if no home reported or the helper refused
            print(f"{slot}  {line.result:<12} {homes:>9} homes, finished {at}")
    return 0


def _print_key(options: argparse.Namespace) -> int:
    """Create or load an identity, and print its public key; return 0, or 1 if it cannot be written."""
    from meteragent.operators import identity  # noqa: PLC0415 -- it needs the extra

    try:
        key = identity.create(options.file) if options.key_action == "new" else identity.load(options.file)
    except OSError as error:
        return exit_codes.fail(f"{options.file}: {(error.strerror or 'cannot be used').lower()}")
    print(f'identity = "{key.public.hex()}"')
    return 0


_ACTIONS = {"leader": _operate, "helper": _operate, "ledger": _print_ledger, "key": _print_key}
