"""Mechanisms: each adds noise of one exactly known law and states its privacy as a function."""

from meteragent.privacy.mechanism.laplace import LInfLaplace

__all__ = ["LInfLaplace"]
