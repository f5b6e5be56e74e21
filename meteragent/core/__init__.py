"""The core of one stream, without I/O: it turns messages and times into effects.

    pipeline   decides when slots open and close, and what is charged and released (start here)
    intake     turns messages into readings of meters; `phases` sums the phases of one meter
    timeline   integrates one meter's readings into slots; `register` does so for registers
    window     holds the accumulators of a window's slots; `above`, `peak`, `shares` and `weighted` define
               other kinds of windows, and `prices` holds the prices of weighted windows
    noise      draws the noise and dithers of a feed; `redraw` draws noise again for lost slots and for peaks
    charges    counts the charges of a feed's windows
    totals     keeps the running totals
    claims     finds out which sink topics belong to this store; `names` derives the meters' public ids
    upcoming   finds a meter's next slot to be released

No module of the core writes logs, reads a clock or owns a random number generator: times and random bits are
passed in as arguments. No exception holds a reading.
"""
