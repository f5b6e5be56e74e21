"""A rehearsal on this machine: what would leave is shown, nothing leaves, and nothing is written."""

from meteragent.tools.rehearse.rehearsal import Rehearsal, Row
from meteragent.tools.rehearse.view import View

__all__ = ["Rehearsal", "Row", "View"]
