"""Flip every bit of a small store, one after the other: ``python -m tests.commands.rot --log FILE``.

Each flip is made in a copy of the store, which the commands read and an agent opens, writes and stops. The
exit code is 1 if anything else follows than the right numbers, a refusal, or a message that is held. Pages
have 512 bytes, so that few bits hold nothing. After a stop (143), the same command continues in its log.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

from simulators.commands.option import positive
from simulators.long_run import EXIT_STOPPED, LongRun, OtherLog, Stopped, stoppable
from tests.support import rot
from tests.support.stores import in_memory

PART_BITS = 2000


def part(bits: Sequence[int]) -> dict[str, object]:
    """Flip bits, by their numbers in all files of the store; return what became of it, and what is wrong."""
    verdicts, wrong = Counter[str](), dict[str, str]()
    with in_memory() as folder:
        (folder / "new").mkdir()
        files = rot.written(folder / "new")
        every, right = rot.bits(files), rot.flipped(files, None, folder / "right" / "db")
        for number in bits:
            bit = every[number % len(every)]
            verdict = rot.verdict(rot.flipped(files, bit, folder / "flipped" / "db"), right)
            verdicts[verdict] += 1
            if verdict not in rot.GOOD:
                wrong[f"{bit.name} {bit.number}"] = verdict
    return {"from": bits[0], "verdicts": dict(verdicts), "wrong": wrong}


def _count_bits() -> int:
    with in_memory() as folder:
        return len(rot.bits(rot.written(folder)))


def main() -> int:
    """Flip the bits that the log lacks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="flip only every N-th bit")
    parser.add_argument("--jobs", type=positive, default=2, metavar="N", help="number of processes")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append finished parts to this file")
    options = parser.parse_args()
    numbers = range(0, _count_bits(), options.every)
    parts = [numbers[start : start + PART_BITS] for start in range(0, len(numbers), PART_BITS)]
    try:
        with stoppable(), LongRun(options.log, "rot", ("meteragent", "simulators", "tests")) as log:
            known_starts = {line["from"] for line in log.parts}
            try:
                with get_context("spawn").Pool(options.jobs) as pool:
                    for line in pool.imap_unordered(
                        part, [bits for bits in parts if bits[0] not in known_starts]
                    ):
                        log.append(line)
            except Stopped:
                print("stopped: run the same command to continue")
                return EXIT_STOPPED
            verdicts = sum((Counter(line["verdicts"]) for line in log.parts), Counter[str]())
            wrong = {bit: text for line in log.parts for bit, text in line["wrong"].items()}
    except OtherLog as error:
        print(f"rot: {error}", file=sys.stderr)
        return 2
    for verdict, count in verdicts.most_common():
        print(f"{count:>9,}  {verdict}")
    for bit, text in wrong.items():
        print(f"{bit}: {text}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
