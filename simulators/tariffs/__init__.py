"""Tariffs: four examples, and the theory's figures on them."""
