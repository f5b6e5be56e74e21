"""The core of one stream, without I/O: it turns messages and times into effects.

    pipeline   decides when slots open and close, and what is charged and released (start here)
    stream     the stream's settings, its meters' names, and the effects of one `Pipeline.feed`
    intake     turns messages into readings of meters; `phases` sums the phases of one meter
    arrivals   judges what arrives from each meter and phase; `register_judgement` judges register readings
    timeline   integrates one meter's `pending` readings into slots; `register` does so for registers
    window     holds the sums of a window's slots; `largest` those of a peak, `shares` those of a crowd
    factory    makes timelines and windows, choosing the class for each kind of window
    opening    opens and charges windows, unless another store releases the meter
    release    makes the messages of closed slots, redraws missing noise, and keeps the running totals
    deadlines  when slots are next due
    noise      draws the noise and dithers of a feed
    charges    counts the charges of a feed's windows
    prices     the prices of weighted windows, and their intake from messages

No module of the core writes logs, reads a clock or owns a random number generator: times and random bits are
passed in as arguments. No exception holds a reading.
"""
