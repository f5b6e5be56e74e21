"""A rehearsal on this machine: it shows what would leave, sends nothing and writes nothing."""

from meteragent.tools.rehearse.rehearsal import Rehearsal, Row
from meteragent.tools.rehearse.view import View

__all__ = ["Rehearsal", "Row", "View"]
