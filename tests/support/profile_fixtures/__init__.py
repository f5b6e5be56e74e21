"""Invented messages of supported devices: one module for each family, with its `CASES`."""
