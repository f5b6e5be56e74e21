"""Simulation: what meters send, without meters. Nothing in `meteragent` imports it."""

__version__ = "0.1.0"
