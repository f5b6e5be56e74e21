"""The kinds of windows. To add one, write its class in a file here, and a row wherever a test asks for it."""

from meteragent.domain.shapes.amount import Amount, PriceSource
from meteragent.domain.shapes.bands import UNKNOWN_BAND, Banded, Bands, Profile
from meteragent.domain.shapes.base import Accumulator, Metric, Shape, Space
from meteragent.domain.shapes.excess import Excess
from meteragent.domain.shapes.means import Curve, Equal, Means
from meteragent.domain.shapes.peak import Peak
from meteragent.domain.shapes.share import Share

SHAPES: dict[Space, type[Shape]] = {
    shape.space: shape for shape in (Means, Curve, Profile, Bands, Amount, Peak, Excess, Share)
}
"""The class of each kind of window."""

__all__ = [
    "SHAPES",
    "UNKNOWN_BAND",
    "Accumulator",
    "Amount",
    "Banded",
    "Bands",
    "Curve",
    "Equal",
    "Excess",
    "Means",
    "Metric",
    "Peak",
    "PriceSource",
    "Profile",
    "Shape",
    "Share",
    "Space",
]
