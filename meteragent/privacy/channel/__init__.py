"""Finite mechanisms as exact stochastic matrices, and the exact numbers that are their entries."""

from meteragent.privacy.channel.exponential import Number, exp, to_number
from meteragent.privacy.channel.family import has_same_noise
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.channel.laplace import NoLaplaceMechanism, laplace_channel, laplace_densities
from meteragent.privacy.channel.matrix import Distribution
from meteragent.privacy.channel.sets import algebra, all_events, disjoint_first, disjoint_second

__all__ = ["Channel", "Distribution", "NoLaplaceMechanism", "Number", "algebra", "all_events"]
__all__ += ["disjoint_first", "disjoint_second", "exp", "has_same_noise", "laplace_channel"]
__all__ += ["laplace_densities", "to_number"]
