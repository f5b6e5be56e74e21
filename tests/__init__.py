"""The specification: every test is one sentence of it.

A package, not just a folder: some distributions install one of this name, which would win otherwise.
"""
