"""The receipts of revoked receivers, as files for the operator: what was sent to whom, under which terms."""

import json
from collections.abc import Iterator
from pathlib import Path

from meteragent.domain.errors import StoreError
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import format_duration, iso_time
from meteragent.domain.terms import Terms
from meteragent.report.format import hidden_text
from meteragent.service.whole_file import whole_file
from meteragent.store import Store, stored_terms
from meteragent.store.grants import Receipt
from meteragent.wire.descriptor import describe_terms


def receipt_path(store: Path, receipt: Receipt) -> Path:
    """Return the path of a receipt, made from the names of the store and receiver and the grant's id."""
    return store.with_name(f"{store.name}.receipt-{receipt.grant.name}-{receipt.grant.id}.txt")


def receipt_text(receipt: Receipt, stream_terms: list[Terms]) -> str:
    """Return a receipt in words; `stream_terms` are all terms of the stream in the store."""
    return "\n".join(_receipt_lines(receipt, {describe_terms(item).id: item for item in stream_terms})) + "\n"


def _receipt_lines(receipt: Receipt, terms_by_id: dict[str, Terms]) -> Iterator[str]:
    grant, count = receipt.grant, sum(row.records for row in receipt.rows)
    yield f"Receipt: records of stream {grant.stream} that were sent to {grant.name}"
    yield ""
    yield f"sent to:      {json.loads(grant.link)['url']}, topic {grant.topic}"
    yield f"agreed from:  {iso_time(grant.since_ms)}"
    if grant.until_ms is not None:
        yield f"agreed until: {iso_time(grant.until_ms)}"
    yield f"revoked at:   {iso_time(receipt.revoked_ms)} ({receipt.reason})"
    yield f"records:      {count}, confirmed by the receiver's broker"
    for row in receipt.rows:
        times = f"{iso_time(row.from_ms)} to {iso_time(row.to_ms)}"
        yield f"  {row.topic}: {row.records} of {times}, terms {row.descriptor_id}"
    if receipt.discarded_count:
        noun = "message" if receipt.discarded_count == 1 else "messages"
        yield f"deleted:      {receipt.discarded_count} {noun} that the receiver's broker had not confirmed;"
        yield "              if one of them was on its way, it may have arrived"
    yield ""
    yield "Terms of these records, as in their descriptors:"
    for id_ in dict.fromkeys(row.descriptor_id for row in receipt.rows):
        yield f"  {id_}: {_promise(terms_by_id[id_]) if id_ in terms_by_id else 'no longer in the store'}"
    if not receipt.rows:
        yield "  none, because no record was sent"
    yield ""
    yield "Nothing is sent to this receiver after its revocation, except to withdraw its descriptors."
    yield "It keeps what it has received."


def _promise(item: Terms) -> str:
    preset = f"preset {item.preset}, " if item.preset else ""
    length = f"a window of {format_duration(item.length_ms)}"
    if item.timezone is not None:
        length = f"a calendar window of {format_duration(item.length_ms)} in {item.timezone}"
    return f"{preset}hides {hidden_text(item)} at level {exact_text(item.level)}, for {length}"


def write_receipt(store: Store, receipt: Receipt) -> Path:
    """Write a receipt next to the store, all or nothing; return its path. Raises StoreError."""
    path = receipt_path(store.path, receipt)
    content = receipt_text(receipt, stored_terms(store.connection).get(receipt.grant.stream, []))
    try:
        with whole_file(path, part=path.with_name(f"{path.name}.new")) as file:
            file.write(content.encode())
    except OSError as error:
        raise StoreError(f"cannot write the receipt {path}: {error.strerror}") from error
    return path
