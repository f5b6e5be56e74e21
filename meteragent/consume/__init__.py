"""The receiving side: estimates from a stream's records, with intervals. Most of it needs only numpy.

    meters = collect(payloads)              # all messages of one stream, in any order, repeated or not
    home = meters["m1"]
    home.time_ms, home.values, home.gaps    # negative values are normal: clipping them biases sums
    home.value(t_ms)                        # one slot: Estimate(value, sd, low, high, coverage, unit)
    home.energy(start_ms, end_ms)           # any whole number of slots, in kWh
    home.energy(.., cut="even")             # any times: of a slot that is cut, a proportional part
    total(home)                             # a private register: the running sum with its intervals
    curve(home, window_ms).at(times_ms)     # the load at any time of a window, with a simultaneous band
    mean_day(home, window_ms)               # the mean day of a window, band by band
    band_energies(home, window_ms)          # kWh of each band of a tariff
    weighted_total(home, window_ms)         # the amount of a window, energy times price
    tariff_cost(home, tariff, window_ms)    # the cost of a window under a tariff, such as in EUR
    compare_tariffs(home, tariffs, window_ms).cheapest      # and .sureness, .costs
    energy_above(home, window_ms)           # the energy above a threshold
    highest_mean(home, window_ms)           # the largest mean of a window's equal parts
    days, months = nested(days, months)     # nested streams (`privacy.shares`): smaller errors
    nonnegative(home).values                # non-negative values with the same energy (see `view`)
    mean_value(meters.values(), t_ms)       # the mean over homes, in the stream's unit
    mean_energy(meters.values(), start_ms, end_ms)
    guess_under_prior(home, t_ms, prior)    # the best guess under a prior; no interval, not for sums
    peak(meters.values(), start_ms, end_ms) # the largest mean over homes in a slot, less its bias
    by_feeder(Slots.of(meters.values()), feeder_of, Rules(at_least=15))     # thousands of homes, slot by slot
    home.to_pandas()                        # or .to_arrow(), or polars.DataFrame(home.columns())
    crowd_totals(payloads)                  # totals of crowds, with the noise of two operators
    read_archive(Path("out.parquet"))       # the output of `sanitise`, as `collect` returns it
    read_table(connection, stream, start_ms, end_ms)        # the same for records that `collect` stored

An interval contains the agent's value (after fill and clamp) with the stated probability. It is computed from
the distribution of the noise that the descriptor names. A record states a single number for its slot, such as
the mean power or the energy, and nothing else about the load within the slot.

Records and descriptors are JSON objects; archives are Parquet (`archive`, which needs pyarrow).

`message` parses descriptors and records. `series` collects the records of each meter and computes estimates.
Most other modules build on these two.
"""

from meteragent.consume.archive import read_archive
from meteragent.consume.crowd import CrowdTotal, crowd_totals
from meteragent.consume.feeder import Peak, peak
from meteragent.consume.guess import PriorGuess, guess_under_prior
from meteragent.consume.many import Cells, by_feeder
from meteragent.consume.message import Descriptor, Message, Record
from meteragent.consume.nesting import Nested, nested
from meteragent.consume.register import Register, total
from meteragent.consume.rules import Rules
from meteragent.consume.series import Estimate, Series, collect, mean_energy, mean_value
from meteragent.consume.shape import (
    Curve,
    MeanDay,
    band_energies,
    curve,
    energy_above,
    highest_mean,
    mean_day,
    weighted_total,
)
from meteragent.consume.slots import Slots
from meteragent.consume.table import UnfitMeters, read_slots, read_table
from meteragent.consume.tariff import TariffChoice, compare_tariffs, tariff_cost
from meteragent.consume.view import NonnegativeView, nonnegative
from meteragent.domain.tariff import Tariff

__all__ = ["Cells", "CrowdTotal", "Curve", "Descriptor", "Estimate", "MeanDay", "Message", "Nested"]
__all__ += ["NonnegativeView", "Peak", "PriorGuess", "Record", "Register", "Rules", "Series", "Slots"]
__all__ += ["Tariff", "TariffChoice", "UnfitMeters", "band_energies", "by_feeder", "collect"]
__all__ += ["compare_tariffs", "crowd_totals", "curve", "energy_above", "guess_under_prior", "highest_mean"]
__all__ += ["mean_day", "mean_energy", "mean_value", "nested", "nonnegative", "peak", "read_archive"]
__all__ += ["read_slots", "read_table", "tariff_cost", "total", "weighted_total"]
