"""What the page for the file says of an archive where it differs from the agent's stream; texts only."""

_KEY = (
    "The noise comes from a key (AES-256), so that a part that is made again is the same. Whoever has the key"
    " can take the noise off a window if they can guess the whole of its data, until `meteragent key forget`"
    " takes its time out of the key."
)
_RAW = (
    "`meteragent sanitise` reads readings from the input and writes none: not into the output, the ledger or"
    " what waits while it runs. With `--engine spark` Spark's own shuffle files hold readings while it runs"
    " (`spark.io.encryption.enabled` encrypts them)."
)
_ONCE = (
    "What was released is in the key's ledger for ever: an interval is released once under a key. The ledger"
    " does not know what agents have released of the same meters; that adds."
)
HEAD = (_KEY, _RAW, _ONCE)
WHO = "whoever sees it, has not the key, and cannot break AES-256 or SHA-256, whatever else they know"
WHERE = (
    "To a folder of Parquet files, as `meteragent sanitise IN OUT` writes it. It has a row for each window"
    " where the input has windows in its rows, and a row for each slot where the input has readings:"
)
_MANIFEST = (
    "`_manifest.json` beside them says the descriptors, the ids of keys, how many windows were released and"
    " refused, and the name of the run, a keyed hash"
)
_WINDOWS = (
    "which meters and windows there are is not hidden: a window is there if a reading begins in it, or a row"
    " of the input holds it, whatever its values"
)
_ORDER = (
    "neither the order of rows nor where parts and row groups end follows from values; where the input has"
    " readings in its rows, parts end by how many there are, to about a million"
)
BESIDE = (_MANIFEST, _WINDOWS, _ORDER)
SPENT = "the key's ledger, and `OUT.ledger.parquet` of each run, say what each meter has spent"
EARLIER = "What was released under other terms the key's ledger says; it is never released again."


def columns(*, keyed: bool, bands: bool) -> dict[str, str]:
    """Return what each column of the output says; names are pseudonyms where they are `keyed`."""
    name = "a keyed pseudonym of the meter's name" if keyed else "the meter's own name, as the input has it"
    band = {"band": "which hours of the day the number is for; public"} if bands else {}
    return {
        "meter": f"{name}; public",
        "start": "where the window or the slot starts, in UTC; public",
        "end": "where it ends; public",
        **band,
        "values, value": "**private**: what was measured in each slot, with noise",
        "d": "the id of the descriptor, which says the terms and the noise; public",
        "key": "the id of the key; public",
    }
