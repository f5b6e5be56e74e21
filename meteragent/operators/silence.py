"""Report the newest slot if no report (at the leader) or request (at the helper) for it arrives in time."""

from collections.abc import Mapping
from typing import Final

from meteragent.crowd.group import Group
from meteragent.crowd.machine import RowKey

PATIENCE_S: Final[Mapping[str, int]] = {"leader": 60, "helper": 1800}
"""How long after a deadline, in seconds, the first message may arrive, by role.

The leader sends a request for 2^20 homes 19 minutes after the deadline.
"""
_TABLES: Final[Mapping[str, str]] = {"leader": "report", "helper": "batch"}
_SLOTS: Final = 2
"""The number of slots that may be silent after a start, because homes may not have had keys for them."""


class SilenceWatch:
    """A watch for slots without a message; the row of an accepted message shows that it arrived."""

    def __init__(self, role: str, group: Group, now_s: int) -> None:
        self._group, self._started_s = group, now_s
        self._table, self._patience_s = _TABLES[role], PATIENCE_S[role]
        self._newest_s: int | None = None

    def note_rows(self, rows: Mapping[RowKey, bytes | None]) -> None:
        """Note the slots of the reports or requests that a step has accepted."""
        slots = [key.at for key, value in rows.items() if key.table == self._table and value is not None]
        if slots:
            self._newest_s = max(slots) if self._newest_s is None else max(self._newest_s, *slots)

    def silent_slot_s(self, now_s: int) -> int | None:
        """Return the newest overdue slot if it has no message; None for the first slots after a start."""
        group = self._group
        past_s = now_s - self._patience_s - group.deadline_s
        if self._newest_s is None and past_s < self._started_s + _SLOTS * group.slot_s:
            return None
        last_s = (past_s // group.slot_s - 1) * group.slot_s
        return None if self._newest_s is not None and self._newest_s >= last_s else last_s
