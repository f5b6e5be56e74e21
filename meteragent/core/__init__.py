"""The core of one stream, without I/O: messages and the time in, effects out.

    pipeline   decides when slots open and close, what is charged and what is released (start here)
    intake     turns messages into readings of meters; `phases` sums the phases of one meter
    timeline   integrates one meter's readings into slots; `register` does so for registers
    window     holds the accumulators of a window's slots
    noise      draws what a feed needs; `charges` counts what its windows are charged
    totals     keeps the running totals
    claims     knows which sink topics are this store's; `names`, under which name a meter is released

Nothing here logs, keeps a clock or draws from a generator: time and random bits are arguments. No exception
holds a reading.
"""
