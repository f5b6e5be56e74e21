"""SenML in JSON (RFC 8428). Names with spaces never clash with a record's name, which contains no spaces."""

import re
from fractions import Fraction

from meteragent.decode.profile import CodedPart, Quantity
from meteragent.decode.senml import J_IN_WH, make_reader
from meteragent.domain.units import Kind

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:./_-]*", re.ASCII)


def _named_quantity(kind: Kind, name: str) -> Quantity | None:
    """Return the quantity of records whose name, or its end after ``:`` or ``/``, is `name`, if possible."""
    if not _NAME.fullmatch(name):
        return None
    return Quantity(kind, Fraction(1) if kind is Kind.POWER else J_IN_WH, make_reader(kind, name))


CODED_PARTS = {
    "senml": CodedPart(
        {
            "the only power": Quantity(Kind.POWER, Fraction(1), make_reader(Kind.POWER, None)),
            "the only register": Quantity(Kind.REGISTER, J_IN_WH, make_reader(Kind.REGISTER, None)),
            "the only sum": Quantity(Kind.REGISTER, J_IN_WH, make_reader(Kind.REGISTER, None, is_sum=True)),
            "the only interval": Quantity(
                Kind.INTERVAL_ENERGY, J_IN_WH, make_reader(Kind.INTERVAL_ENERGY, None)
            ),
        },
        named=_named_quantity,
        fields=("bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "v", "vs", "vb", "vd", "s", "t"),
    )
}
