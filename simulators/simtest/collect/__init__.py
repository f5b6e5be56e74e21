"""The same simulation for `collect`: the unchanged service between a broker and tables that can fail.

`world` runs one or two collectors (`processes`). They receive over MQTT from the broker of `mqtt`, or share a
queue; they write into PostgreSQL's tables in memory (`tables`), or into a dataset of real files. `generator`
draws a schedule, and `judge` decides what must hold from what was published.
"""
