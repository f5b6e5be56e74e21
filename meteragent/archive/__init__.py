"""Release archives: windows at rest, each released once, with noise that is derived from a key.

A release may be made in several places, or twice (a cluster retries its tasks), and no durable step separates
noise from output. So a window's bits follow from a secret key and from everything that identifies the window
(`key`, `prf_input`): repeating the release gives the same bytes. Each key has one ledger.
"""
