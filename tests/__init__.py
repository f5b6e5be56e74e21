"""The specification: every test is one sentence of it.

A package, not just a folder: gmqtt installs one of this name, which would win otherwise.
"""
