"""A rehearsal on this machine, which shows what would be sent, but sends and writes nothing."""

from meteragent.tools.rehearse.rehearsal import Rehearsal, Row
from meteragent.tools.rehearse.view import View

__all__ = ["Rehearsal", "Row", "View"]
