"""Formats of files that utilities exchange: CSV, Green Button and IEC 61968-9 MeterReadings.

A format's functions convert entries to bytes, or bytes to entries, and do no I/O. docs/formats.md lists what
each format cannot carry. Numbers are exact, XML with a document type is refused, and no error message
contains a value.

`entry` defines the type that all formats share. `table` is CSV, `green_button` is ESPI, `meter_readings` is
a CIM message, `xml` has the functions for XML, and `readings` makes the table that `sanitise` reads.
"""
