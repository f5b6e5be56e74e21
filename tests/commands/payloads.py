"""Count the statements of the corpus of payloads that are read right: `python -m tests.commands.payloads`."""

import sys
from collections import Counter

from tests.support.payloads import payloads


def main() -> int:
    """Print the counts by profile and every statement that is wrong; return 1 if there is one."""
    right, wrong, captured = Counter[str](), Counter[str](), Counter[str]()
    files = Counter[str]()
    for payload in payloads():
        files[payload.profile] += 1
        captured[payload.profile] += payload.facts["origin"] == "captured"
        for statement in payload.statements():
            (right if statement.is_right else wrong)[statement.profile] += 1
            if not statement.is_right:
                print(f"{statement.file}: {statement.quantity}: {statement.actual}, not {statement.expected}")
    print(f"{'profile':<26}{'payloads':>9}{'captured':>9}{'right':>7}{'wrong':>7}")
    for name, count in files.items():
        print(f"{name:<26}{count:>9}{captured[name]:>9}{right[name]:>7}{wrong[name]:>7}")
    sums = files.total(), captured.total(), right.total(), wrong.total()
    print(f"{'all':<26}{sums[0]:>9}{sums[1]:>9}{sums[2]:>7}{sums[3]:>7}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
