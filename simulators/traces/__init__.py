"""Traces of real load, read and written as files."""
