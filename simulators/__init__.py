"""Simulation: homes, meters and faults without hardware. Nothing in `meteragent` imports it."""

__version__ = "0.1.0"
