"""The core of one stream, without I/O: it turns messages and times into effects.

    pipeline   decides on the opening and closing of slots, on charges and on releases (start here)
    intake     turns messages into readings of meters; `phases` sums the phases of one meter
    timeline   integrates one meter's readings into slots; `register` does so for registers
    window     holds the accumulators of a window's slots
    noise      draws the noise and dithers of a feed; `charges` counts the charges of its windows
    totals     keeps the running totals
    claims     finds out which sink topics belong to this store; `names` derives the meters' public names
    upcoming   finds the slot of a meter that is released next

No module of the core writes logs, reads a clock or owns a random number generator: it receives times and
random bits as arguments. No exception holds a reading.
"""
