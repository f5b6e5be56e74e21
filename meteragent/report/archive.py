"""The texts of an archive's statement that differ from those for the agent's streams."""

_KEY = (
    "The noise is derived from a key (AES-256), so that computing a part of the output again gives the same"
    " numbers. Anyone who has the key can remove the noise from a window if they can guess all of its data,"
    " until `meteragent key forget` removes the window's epoch from the key."
)
_RAW = (
    "`meteragent sanitise` reads readings from the input and writes them nowhere: neither to the output"
    " nor to the ledger or its temporary files. With `--engine spark`, Spark's own shuffle files hold"
    " readings while it runs (`spark.io.encryption.enabled` encrypts them)."
)
_ONCE = (
    "The key's ledger keeps an entry for every release for ever, so an interval is released once under a key."
    " The ledger does not know what agents have released for the same meters; the levels of those releases"
    " add to the levels in it."
)
HEAD = (_KEY, _RAW, _ONCE)
WHO = (
    "anyone who sees it but does not have the key and cannot break AES-256 or SHA-256, whatever else they"
    " know"
)
WHERE = (
    "To a folder of Parquet files, which `meteragent sanitise IN OUT` writes. The files have a row for each"
    " window if the rows of the input are windows, and a row for each slot if they are readings:"
)
_MANIFEST = (
    "`_manifest.parquet`, in the same folder, holds the descriptors, the ids of keys, the numbers of windows"
    " released and refused, the rows and digest of each file, and the id of the run, a keyed hash"
)
_WINDOWS = (
    "the existence of meters and windows is not hidden: the output has a window if a reading begins in it, or"
    " if the input has a row for it, whatever its values"
)
_ORDER = (
    "neither the order of rows nor the ends of parts and row groups depend on values; the ends follow from"
    " the numbers of readings and windows, and from times and names"
)
BESIDE = (_MANIFEST, _WINDOWS, _ORDER)
SPENT = "the key's ledger, and `OUT.ledger.parquet` of each run, show what each meter has spent"
EARLIER = "The key's ledger shows what was released under other terms; none of it is ever released again."


def column_meanings(*, is_keyed: bool, has_bands: bool) -> dict[str, str]:
    """Return the meaning of each output column; names are pseudonyms if `is_keyed`."""
    name = "a keyed pseudonym of the meter's name" if is_keyed else "the meter's own name, as in the input"
    band = {"band": "the hours of the day that the number covers; public"} if has_bands else {}
    return {
        "meter": f"{name}; public",
        "start": "the start of the window or the slot, in UTC; public",
        "end": "its end; public",
        **band,
        "values, value": "**private**: what was measured in each slot, with noise",
        "d": "the id of the descriptor, which states the terms and the noise; public",
        "key": "the id of the key; public",
    }
