"""The budget of a meter: the privacy that it may spend in a period, over all of its streams.

`config` reads the budget, `core.charges` checks it against the odometer before a window opens, and
`store.ledger` checks it again in the transaction that debits the ledger.
"""

from fractions import Fraction
from typing import NamedTuple


class Budget(NamedTuple):
    """The largest sum of charges, `epsilon_per_w` (1/W), over all streams of a meter in each period.

    Periods last `period_ms`, a number of whole days, and are aligned to the Unix epoch.
    """

    epsilon_per_w: Fraction
    period_ms: int
