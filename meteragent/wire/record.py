"""Records (JSON, DESIGN 5). All records of a stream have the same fields, whatever happens (law 4)."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from meteragent.domain.grid import iso_duration, iso_time
from meteragent.domain.terms import Terms
from meteragent.wire.descriptor import TermsDescriptor, describe_terms
from meteragent.wire.number import decimal_text

_quoted = json.encoder.encode_basestring


class RecordFormat(NamedTuple):
    """The format of one descriptor's records; `tail` is the end of the text, the same in all of them."""

    descriptor: TermsDescriptor
    tail: str

    @classmethod
    def of(cls, descriptor: TermsDescriptor) -> "RecordFormat":
        """Return the format of a descriptor's records."""
        terms, sd = descriptor.terms, json.dumps(descriptor.facts["sd"])
        return cls(descriptor, f',"unit":"{terms.value_unit}","sd":{sd},"d":"{descriptor.id}"}}')

    @property
    def terms(self) -> Terms:
        """The terms under which the records are released."""
        return self.descriptor.terms

    def encode(self, public_id: str, window_ms: int, slot_index: int, quanta: int, draws: int = 1) -> bytes:
        """Encode the record of a slot with its private value; `window_ms` is the start of its window.

        The record of a band or a peak states the window's time, and the band's name or the `draws`.
        """
        terms = self.descriptor.terms
        shape = terms.shape
        from_ms, to_ms = shape.extent_ms(slot_index)
        value = decimal_text(quanta * terms.quantum_u)
        band_field = f',"band":"{shape.names[slot_index]}"' if shape.names else ""
        draws_field = f',"draws":{draws}' if shape.is_redrawn else ""
        head = f'{{"v":1,"meter":{_quoted(public_id)},"t":"{iso_time(window_ms + from_ms)}"'
        head += f',"for":"{iso_duration(to_ms - from_ms)}"{band_field}'
        return f'{head},"value":{value}{draws_field}{self.tail}'.encode()


class RecordFormats(dict[str, RecordFormat]):
    """The record formats for a stream's present and former terms, by the id of the terms."""

    def __init__(self, terms_by_id: Mapping[str, Terms]) -> None:
        super().__init__({id_: self.make_format(terms) for id_, terms in terms_by_id.items()})

    def make_format(self, terms: Terms) -> RecordFormat:
        """Return the format of records under these terms."""
        return RecordFormat.of(describe_terms(terms))

    def register_terms(self, terms: Terms) -> str:
        """Return the id of a new window's terms, and add their record format if it is missing."""
        if terms.id not in self:
            self[terms.id] = self.make_format(terms)
        return terms.id
