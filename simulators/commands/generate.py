"""Write the load and the events of simulated homes to files, or send the load over MQTT, a day at a time.

The series has the columns home, time (UTC) and watts (the meter's mean power over the step that begins then);
the events have home, appliance, start, end, watts (mean) and channel (of a television). The series is written
to FILE, and the events to a file with .events in its name, both as Parquet or CSV, according to FILE's
ending. If DIR is given, both are written to it as Parquet. Memory use hardly grows with the number of days or
homes. A home's day is the same in every file from the same seed. With --region, homes have what the region's
households own today, and share its weather; power is negative while a home delivers more than it uses. Over
MQTT the series is sent as `replay` sends a trace, from meters m0, m1 .., as fast as the broker accepts it.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from aiomqtt import MqttError

from simulators.extras import lacking
from simulators.homes.plan import Files, Plan
from simulators.homes.region import REGIONS
from simulators.homes.signature import DAY_0
from simulators.wire import broker


def run(arguments: argparse.Namespace) -> int:
    """Write the load and the events, or send the load, and print a summary; draw the first day if asked to.

    Return 1 if writing or sending fails, 2 if an argument cannot be used, and otherwise 0.
    """
    first_day = (arguments.first_day - DAY_0).days
    plan = Plan(
        arguments.seed,
        arguments.homes,
        arguments.days,
        arguments.step,
        first_day,
        arguments.resolution,
        None if arguments.region is None else REGIONS[arguments.region],
    )
    try:
        if arguments.engine == "spark":
            print(_run_on_spark(plan, arguments.out))
        else:
            print(_write_or_send(plan, arguments.out, arguments.topic))
        if arguments.plot is not None:
            _plot(plan, arguments.plot)
    except MqttError as error:
        parts = broker(arguments.out)
        address = f"mqtt://{parts.hostname}:{parts.port or 1883}"
        print(f"generate: no broker answers at {address}: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    return 0


def _write_or_send(plan: Plan, target: str, topic: str) -> str:
    """Write the tables to files, or send the readings to a broker; return a summary."""
    if "://" in target:
        broker(target)
        return f"{asyncio.run(plan.send(target, topic)):,} readings sent to {target}"
    files = Files.at(Path(target))
    readings, events = plan.write(files)
    return f"{readings:,} readings in {files.series}, {events:,} events in {files.events}"


def _run_on_spark(plan: Plan, target: str) -> str:
    """Write the tables to folders on Spark's workers; return a summary."""
    if "://" in target or Path(target).suffix:
        raise ValueError(f"{target} is not a folder, and --engine spark writes many files")
    try:
        from simulators.homes import spark  # noqa: PLC0415 - needs pyspark
    except ModuleNotFoundError as error:
        raise ValueError(lacking(error, "spark")) from error
    return spark.write(plan, Path(target))


def _plot(plan: Plan, path: Path) -> None:
    try:
        from simulators.homes.plot import draw  # noqa: PLC0415 - needs matplotlib
    except ModuleNotFoundError as error:
        raise ValueError(lacking(error, "analysis")) from error
    draw(next(plan.parts()), plan.first, path)
