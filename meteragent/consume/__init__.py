"""The receiving side: what a stream sent, as numbers with honest error bars. Needs numpy only.

    meters = collect(payloads)              # all messages of one stream, in any order, repeated or not
    home = meters["m1"]
    home.time_ms, home.values, home.gaps    # negative values are normal: cutting them off biases sums
    home.value(t_ms)                        # one slot: Estimate(value, sd, low, high, coverage, unit)
    home.energy(start_ms, end_ms)           # any whole number of slots, in kWh
    mean_value(meters.values(), t_ms)       # of many homes, in the stream's unit
    mean_energy(meters.values(), start_ms, end_ms)

`message` says what a descriptor and a record are, `series` what follows from many of them.
"""

from meteragent.consume.message import Descriptor, Message, Record
from meteragent.consume.series import Estimate, Series, collect, mean_energy, mean_value

__all__ = [
    "Descriptor",
    "Estimate",
    "Message",
    "Record",
    "Series",
    "collect",
    "mean_energy",
    "mean_value",
]
