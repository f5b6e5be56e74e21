"""Second draws of noise, for lost slots of registers and for peaks after a restart."""

from meteragent.core.charges import Charges
from meteragent.core.noise import Noise
from meteragent.core.peak import PeakWindow
from meteragent.core.timeline import Timeline
from meteragent.domain.commit import Commit
from meteragent.domain.counters import Counts
from meteragent.wire.record import RecordFormats


class Redraws:
    """The second draws of a stream's windows.

    The new noise of a lost slot masks a constant, so it is not charged. The new noise of a peak masks
    readings, so it is charged like the noise of a new window, in the commit that stores it.
    """

    __slots__ = ("_charges", "_counts", "_noise")

    def __init__(self, charges: Charges, noise: Noise, counts: Counts) -> None:
        self._charges = charges
        self._noise = noise
        self._counts = counts

    def settle(self, meter: str, timeline: Timeline, formats: RecordFormats, commit: Commit) -> None:
        """Count a timeline's events, and draw noise from a new noise bound for each window that lacks noise.

        A peak is charged on the day of the last integrated part, and its meter is added to `commit.redrawn`;
        if the budget forbids the charge, the parts that need the noise do not count.
        """
        for name in timeline.counts():
            self._counts.add(name)
        for window in timeline.windows:
            if not window.lacks_noise:
                continue
            if isinstance(window, PeakWindow):
                if not self._charges.add(meter, timeline.integrated_until_ms - 1, window.terms):
                    window.drop()
                    self._counts.add("over_budget")
                    continue
                commit.redrawn.add(meter)
            _, noise = self._noise.open(window.terms_id, formats.mechanism(window.terms_id))
            window.redraw(noise, self._noise.dither(window.terms, window.lost_slot or 0))
            self._counts.add("peak_redrawn" if isinstance(window, PeakWindow) else "register_lost")
