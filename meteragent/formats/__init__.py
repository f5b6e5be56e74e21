"""Files that utilities exchange: CSV, Green Button and IEC 61968-9 MeterReadings, and what each can carry.

Each format is a function from entries to bytes, or back; it does no I/O. What a format cannot carry is listed
in docs/formats.md. Numbers are exact, XML with a document type is refused, and no error holds a value.

`entry` has what all formats share, `table` is CSV, `green_button` ESPI, `meter_readings` and `aiida` are the
CIM messages, `xml` has what XML needs, and `readings` makes the input of `sanitise`.
"""
