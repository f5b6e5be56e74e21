"""Simulation: what meters send, without meters. Nothing in `meteragent` imports it."""
