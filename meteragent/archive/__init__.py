"""Release archives: windows at rest, each released once, with noise that is derived from a key.

A window may be released in several places, or twice (a cluster retries its tasks), and no durable step
separates noise from output. So a window's random bits are derived from a secret key and from everything that
identifies the window (`key`, `prf_input`), and repeating the release gives the same bytes. Each key has one
ledger.
"""
