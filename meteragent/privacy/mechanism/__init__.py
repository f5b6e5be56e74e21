"""Mechanisms: each adds noise of one exactly known law and states its privacy as a function."""

from meteragent.privacy.mechanism.base import Guarantee, Mechanism, MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.functional import Functional
from meteragent.privacy.mechanism.gaussian import DiscreteGaussian
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace, LaplaceSanitisation, TruncatedGeometric
from meteragent.privacy.mechanism.planar import PlanarLaplace, PlanarManhattan
from meteragent.privacy.mechanism.product import MetricProduct, Product
from meteragent.privacy.mechanism.randomised import RandomisedResponse, RandomRow
from meteragent.privacy.mechanism.response import After, OutputPerturbation, Sanitised, Then
from meteragent.privacy.mechanism.selection import Exponential, NoisyMax
from meteragent.privacy.mechanism.vector import VectorLaplace

__all__ = [
    "After",
    "Categorical",
    "DiscreteGaussian",
    "Exponential",
    "Functional",
    "Guarantee",
    "LInfLaplace",
    "Laplace",
    "LaplaceSanitisation",
    "Mechanism",
    "MetricMechanism",
    "MetricProduct",
    "NoisyMax",
    "OutputPerturbation",
    "PairMechanism",
    "PlanarLaplace",
    "PlanarManhattan",
    "Product",
    "RandomRow",
    "RandomisedResponse",
    "Sanitised",
    "Then",
    "TruncatedGeometric",
    "VectorLaplace",
]
