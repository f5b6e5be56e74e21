"""meteragent: privacy for smart-meter streams, at the edge, with a proof.

The path of the data is the reading order of the modules:

    source -> decode -> window -> privacy -> ledger + outbox (one store) -> sink

`meteragent.privacy` is the mathematics and can be used alone.
"""

__version__ = "0.1.0"
