from .base import Guarantee, Mechanism, MetricMechanism, PairMechanism
from .categorical import Categorical
from .dithered import DitheredLaplace
from .laplace import LInfLaplace
from .number import Laplace, TruncatedGeometric
from .planar import PlanarLaplace, PlanarManhattan
from .product import MetricProduct, Product
from .randomised import RandomisedResponse, RandomRow
from .response import After, OutputPerturbation, Sanitised, Then
from .sanitisation import LaplaceSanitisation
from .selection import Exponential, NoisyMax
from .universal import NotUniform, universal_mechanism
from .vector import VectorLaplace

__all__ = [
    "After",
    "Categorical",
    "DitheredLaplace",
    "Exponential",
    "Guarantee",
    "LInfLaplace",
    "Laplace",
    "LaplaceSanitisation",
    "Mechanism",
    "MetricMechanism",
    "MetricProduct",
    "NoisyMax",
    "NotUniform",
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
    "universal_mechanism",
]
