"""Archives: windows that are at rest, released once, with noise that a key gives again and again.

Where a release is made in several places or may be made twice (a cluster's tasks are), there is no durable
step between noise and output. So a window's bits come from a secret key and from all that makes it that
window (`key`, `label`): whoever makes the release again makes the same. The ledger belongs to the key.
"""
