"""Release archives of readings: each window is released once, with noise derived from a key.

Several processes may compute the same window, for instance when a cluster retries a task. So a window's
random bits are derived from a secret key and from everything that identifies the window (`key`, `prf_input`),
and a repeated release gives the same bytes. Each key has one ledger.
"""
