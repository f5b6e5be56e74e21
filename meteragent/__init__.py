"""meteragent: privacy for smart-meter streams, at the edge, with a proof.

The modules are best read in the order in which data pass through them:

    source -> decode -> window -> privacy -> ledger + outbox (one store) -> sink

`meteragent.privacy` is the mathematics and can be used alone.
"""

__version__ = "0.1.0"
