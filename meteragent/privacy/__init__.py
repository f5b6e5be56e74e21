"""Privacy in metric spaces: the mathematics of three papers and our own, exact, usable alone.

It knows nothing of the agent. Parameters are exact (a Fraction, a Decimal, an int or a string such as
"1/220"), random bits are an argument. Points of a mechanism are whole quanta: values on a lattice.

    from meteragent.privacy import LInfLaplace, sd

    mechanism = LInfLaplace(epsilon="1/220", quantum=1, n=1)
    noisy = mechanism.release([[512], [498]])  # two windows of one slot, in quanta
    print(mechanism.loss(220), sd(mechanism))  # level 1 at 220 W; 311.1 W

What is where: `metric`, `space` points and distances; `query` sensitivities; `mechanism` what adds noise and
states its promise; `channel` finite mechanisms as exact matrices; `adversary` what a Bayesian learns;
`composition`, `divergence` what releases cost together; `floor` what no mechanism can beat; `accuracy`,
`totals`, `usefulness` errors before they are made; `inference` how often anybody can be right; `stream`,
`curve` windows in a row and load curves; `exact`, `bits`, `sampling` the ground. Not loaded with it, because
they need scipy: `optimality`, `certificate`, `audit`, `conformance`. README.md beside this file maps every
numbered result of the papers to the name that implements it and the test that shows it.
"""

from meteragent.privacy.accuracy import half_width, sd, sd_of_sum
from meteragent.privacy.adversary import Hiding, Neighbourhood, is_maximally_tight
from meteragent.privacy.bits import Bits, SeededBits, SystemBits
from meteragent.privacy.channel import Channel, algebra, all_events, same_noise
from meteragent.privacy.composition import BudgetExceeded, Cost, Filter, Odometer
from meteragent.privacy.curve import (
    BoundedVariation,
    Hoelder,
    Projection,
    best_k,
    block_means,
    error_bound,
    hat_means,
    reconstruct,
)
from meteragent.privacy.divergence import Composed, LaplacePair, LatticePair, error_bounds
from meteragent.privacy.exact import Exact, levels
from meteragent.privacy.floor import (
    WindowFloor,
    diameter_floor,
    finite_floor,
    maximal_expected_error,
    metric_floor,
    two_point_floor,
)
from meteragent.privacy.inference import identification_bound, success_bound
from meteragent.privacy.mechanism import (
    After,
    Categorical,
    DiscreteGaussian,
    Exponential,
    Functional,
    Guarantee,
    Laplace,
    LaplaceSanitisation,
    LInfLaplace,
    Mechanism,
    MetricMechanism,
    MetricProduct,
    NoisyMax,
    OutputPerturbation,
    PairMechanism,
    PlanarLaplace,
    PlanarManhattan,
    Product,
    RandomisedResponse,
    RandomRow,
    Sanitised,
    Then,
    TruncatedGeometric,
    VectorLaplace,
)
from meteragent.privacy.metric import GraphMetric, Induced, Nullable, Scaled, domination, is_metric
from meteragent.privacy.query import Query, average, count, percentile, total
from meteragent.privacy.sampling import (
    below,
    below_array,
    bernoulli,
    bernoulli_exp,
    choice,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    planar_laplace,
    radii,
    radius,
    uniform,
    windows,
)
from meteragent.privacy.space import (
    Categories,
    Curves,
    Databases,
    Finite,
    Numbers,
    Subsets,
    Windows,
    polyline,
    steps,
)
from meteragent.privacy.stream import (
    Accumulator,
    SlidingPlan,
    TotalVariance,
    energy_loss,
    hold_means,
    overdraw_loss,
    reported_radius,
    typical_day,
)
from meteragent.privacy.totals import Part, half_width_of_total, sd_of_total
from meteragent.privacy.usefulness import (
    channel_alpha,
    geolocation_alpha,
    geometric_alpha,
    least_alpha,
    norm_alpha,
)

__all__ = [
    "Accumulator",
    "After",
    "Bits",
    "BoundedVariation",
    "BudgetExceeded",
    "Categorical",
    "Categories",
    "Channel",
    "Composed",
    "Cost",
    "Curves",
    "Databases",
    "DiscreteGaussian",
    "Exact",
    "Exponential",
    "Filter",
    "Finite",
    "Functional",
    "GraphMetric",
    "Guarantee",
    "Hiding",
    "Hoelder",
    "Induced",
    "LInfLaplace",
    "Laplace",
    "LaplacePair",
    "LaplaceSanitisation",
    "LatticePair",
    "Mechanism",
    "MetricMechanism",
    "MetricProduct",
    "Neighbourhood",
    "NoisyMax",
    "Nullable",
    "Numbers",
    "Odometer",
    "OutputPerturbation",
    "PairMechanism",
    "Part",
    "PlanarLaplace",
    "PlanarManhattan",
    "Product",
    "Projection",
    "Query",
    "RandomRow",
    "RandomisedResponse",
    "Sanitised",
    "Scaled",
    "SeededBits",
    "SlidingPlan",
    "Subsets",
    "SystemBits",
    "Then",
    "TotalVariance",
    "TruncatedGeometric",
    "VectorLaplace",
    "WindowFloor",
    "Windows",
    "algebra",
    "all_events",
    "average",
    "below",
    "below_array",
    "bernoulli",
    "bernoulli_exp",
    "best_k",
    "block_means",
    "channel_alpha",
    "choice",
    "count",
    "diameter_floor",
    "discrete_gaussian",
    "discrete_laplace",
    "domination",
    "energy_loss",
    "error_bound",
    "error_bounds",
    "finite_floor",
    "geolocation_alpha",
    "geometric",
    "geometric_alpha",
    "half_width",
    "half_width_of_total",
    "hat_means",
    "hold_means",
    "identification_bound",
    "is_maximally_tight",
    "is_metric",
    "least_alpha",
    "levels",
    "maximal_expected_error",
    "metric_floor",
    "norm_alpha",
    "overdraw_loss",
    "percentile",
    "planar_laplace",
    "polyline",
    "radii",
    "radius",
    "reconstruct",
    "reported_radius",
    "same_noise",
    "sd",
    "sd_of_sum",
    "sd_of_total",
    "steps",
    "success_bound",
    "total",
    "two_point_floor",
    "typical_day",
    "uniform",
    "windows",
]
