"""Formats of files that utilities exchange: CSV, Green Button and IEC 61968-9 MeterReadings.

A format's functions convert entries to bytes, or bytes to entries, and do no I/O. docs/formats.md lists what
each format cannot carry. Numbers are exact, and no error message contains a value.
"""
