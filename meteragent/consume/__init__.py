"""The receiving side: what a stream sent, as numbers with honest error bars. Needs numpy only.

    meters = collect(payloads)              # all messages of one stream, in any order, repeated or not
    home = meters["m1"]
    home.time_ms, home.values, home.gaps    # negative values are normal: cutting them off biases sums
    home.value(t_ms)                        # one slot: Estimate(value, sd, low, high, coverage, unit)
    home.energy(start_ms, end_ms)           # any whole number of slots, in kWh
    home.energy(.., cut="even")             # any time: a slot that it cuts counts with its share
    total(home)                             # a private register: the running sum with its intervals
    curve(home, window_ms).at(times_ms)     # a window at any time, with a band that holds everywhere
    mean_day(home, window_ms)               # the bands of a month's mean day
    nonnegative(home).values                # a view that keeps every day's energy
    mean_value(meters.values(), t_ms)       # of many homes, in the stream's unit
    mean_energy(meters.values(), start_ms, end_ms)
    guess_under_prior(home, t_ms, prior)    # by what the receiver expects; no interval, never to be summed
    peak(meters.values(), start_ms, end_ms) # the largest mean of a slot, without the bias of picking it
    by_feeder(Slots.of(meters.values()), feeder_of, Rules(at_least=15))     # thousands of homes, slot by slot
    pandas.DataFrame(home.columns())        # or pyarrow.table(home.columns())
    read_archive(Path("out.parquet"))       # what `sanitise` wrote, as `collect` gives it

An interval holds what the meter's agent had (after fill and clamp) with the stated probability, by the
exact law of the noise that the descriptor names. What one record says is the mean or the energy of its
slot: how the load went within a slot was never sent.

Records come as JSON objects or as SenML packs, both mixed if need be; descriptors as JSON; archives come as
Parquet (`archive`, which needs pyarrow).

`message` says what a descriptor and a record are (`senml`: one that came as a pack), `series` what follows
from many of them; `register`, `shape`, `feeder`, `view`, `guess` and `many` go on from there.
"""

from meteragent.consume.archive import read as read_archive
from meteragent.consume.feeder import Peak, peak
from meteragent.consume.guess import PriorGuess, guess_under_prior
from meteragent.consume.many import Cells, by_feeder
from meteragent.consume.message import Descriptor, Message, Record
from meteragent.consume.register import Register, total
from meteragent.consume.rules import Rules
from meteragent.consume.series import Estimate, Series, collect, mean_energy, mean_value
from meteragent.consume.shape import Curve, MeanDay, curve, mean_day
from meteragent.consume.slots import Slots
from meteragent.consume.view import View, nonnegative

__all__ = [
    "Cells",
    "Curve",
    "Descriptor",
    "Estimate",
    "MeanDay",
    "Message",
    "Peak",
    "PriorGuess",
    "Record",
    "Register",
    "Rules",
    "Series",
    "Slots",
    "View",
    "by_feeder",
    "collect",
    "curve",
    "guess_under_prior",
    "mean_day",
    "mean_energy",
    "mean_value",
    "nonnegative",
    "peak",
    "read_archive",
    "total",
]
