"""The same simulation for a crowd's operators: the unchanged leader and helper, with homes and one broker.

`world` runs both over midnight. `generator` draws a schedule, and `judge` decides which totals may and must
be published.
"""
