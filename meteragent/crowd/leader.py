"""The leader: accepts reports, sends a request and publishes a total per slot (crowd.md 3.3 and 3.5).

The tables of rows are `mark` and `secret` (see `machine`), `report` by slot and label, `request` by slot and
index of the chunk, and `closed` by slot (the record of the total, or the reason why there is no total).
"""

import json
from collections.abc import Iterable

from meteragent.crowd import message
from meteragent.crowd.codec import Malformed
from meteragent.crowd.draw import draw_noise
from meteragent.crowd.machine import Effects, Machine, Outgoing, RowKey, response_due_s
from meteragent.crowd.message import Answer, Batch, Chunk, Entry, Refusal, Report
from meteragent.crowd.seal import SHARE, TOTAL, DayKeys, is_signed, seal_info
from meteragent.crowd.share import HOMES_MAX, sum_modulo, to_signed_64
from meteragent.crowd.total import TotalFormat

_REFUSED = b"refused:"


class Leader(Machine):
    """The leader of one group."""

    role = "leader"
    topics = ("report/+", "answer")

    def take_message(self, topic: str, payload: bytes, now_s: int) -> Effects:
        """Take a report or an answer; only the topic determines which of the two it is."""
        kind, _, label = topic.partition("/")
        if kind == "report":
            return self.take_report(label, payload, now_s)
        return self.take_answer(payload, now_s)

    def take_report(self, label: str, payload: bytes, now_s: int) -> Effects:
        """Accept a report that arrived on the topic of `label`, unless there is a reason to refuse it."""
        effects = Effects()
        try:
            report = Report.decode(self.group.id, payload)
        except Malformed as error:
            effects.refusals.append(error.refusal)
            return effects
        reason = self._refusal_of(label, report, payload, now_s)
        if reason:
            effects.refusals.append(reason)
        else:
            self._put(effects, RowKey("report", report.slot_s, label), payload)
        return effects

    def _refusal_of(self, label: str, report: Report, payload: bytes, now_s: int) -> str | None:
        slot_s, reports = report.slot_s, self._names("report", report.slot_s)
        keys = self.keys_of_slot(slot_s)
        conditions = (
            (report.label != label, "other_label"),
            (not self.group.is_slot(slot_s), "unknown_slot"),
            (now_s < self.group.end_s(slot_s), "early"),
            (reports.get(label) == payload, "repeated"),
            (now_s > self.group.closing_s(slot_s) or self._is_fixed(slot_s), "late"),
            (keys is None or keys.id != report.leader_key, "unknown_key"),
            (label in reports, "second_report"),
            (len(reports) >= HOMES_MAX, "full"),
        )
        return next((reason for refused, reason in conditions if refused), None)

    def tick(self, now_s: int) -> Effects:
        """Fix batches after their deadline, close expired slots, and delete old results."""
        effects = Effects()
        for slot_s in sorted(self._tables["report"]):
            if now_s >= self.group.expiry_s(slot_s):
                self._close(effects, slot_s, "expired")
            elif now_s > self.group.closing_s(slot_s) and not self._is_fixed(slot_s):
                self._fix_batch(effects, slot_s)
        homes = sum(len(self._names("report", slot_s)) for slot_s in self._tables["request"])
        self._delay_messages(effects, now_s, homes)
        self._delete_expired(effects, "closed", now_s)
        return effects

    def messages_to_resend(self, now_s: int) -> list[Outgoing]:
        """Return the messages to send again after a restart: open requests, and all stored totals."""
        closed = self._tables["closed"]
        records = [names[""] for _, names in sorted(closed.items()) if not names[""].startswith(_REFUSED)]
        totals = [Outgoing("total", record, due_s=response_due_s(now_s, 0)) for record in records]
        return [*self.unanswered_requests(now_s), *totals]

    def unanswered_requests(self, now_s: int) -> list[Outgoing]:
        """Return the chunks of all requests without an answer, to be sent again."""
        return [
            Outgoing("request", payload, due_s=response_due_s(now_s, 0))
            for _, chunks in sorted(self._tables["request"].items())
            for _, payload in sorted(chunks.items())
        ]

    def take_answer(self, payload: bytes, now_s: int) -> Effects:
        """Accept the helper's answer or refusal; publish the total if the answer is valid and expected."""
        effects = Effects()
        is_refusal = message.message_type(payload) == message.REFUSAL
        kind: type[Answer | Refusal] = Refusal if is_refusal else Answer
        try:
            answer = kind.decode(self.group.id, payload)
        except Malformed as error:
            effects.refusals.append(error.refusal)
            return effects
        reply = answer.message
        if not is_signed(self.group.public_keys["helper"], answer.body, answer.signature):
            effects.refusals.append("bad_signature")
            return effects
        if now_s >= self.group.expiry_s(reply.slot_s):  # even if the tick that will close the slot is late
            effects.refusals.append("expired")
            return effects
        batch, entries = self._batch(reply.slot_s)
        if batch is None or batch.digest != reply.digest:
            reason = "repeated" if self._get("closed", reply.slot_s) else "other_batch"
            effects.refusals.append("unknown_slot" if batch is None and reason != "repeated" else reason)
        elif isinstance(reply, Refusal):
            effects.refusals.append(reply.reason)
            if reply.reason in message.FINAL_REASONS:
                self._close(effects, reply.slot_s, reply.reason)
        elif reply.homes != batch.homes:
            effects.refusals.append("malformed")
        else:
            rejected_indices = set(reply.rejected)
            counted_entries = [entry for index, entry in enumerate(entries) if index not in rejected_indices]
            self._count_answer(effects, reply, counted_entries)
            self._delay_messages(effects, now_s, batch.homes)
        return effects

    def _is_fixed(self, slot_s: int) -> bool:
        return bool(self._names("request", slot_s) or self._get("closed", slot_s))

    def is_closed(self, slot_s: int, now_s: int) -> bool:
        """Return whether a slot has its total or refusal, has expired, or had no report by its deadline."""
        is_empty = now_s > self.group.closing_s(slot_s) and not self._names("report", slot_s)
        return is_empty or bool(self._get("closed", slot_s)) or now_s >= self.group.expiry_s(slot_s)

    def _fix_batch(self, effects: Effects, slot_s: int) -> None:
        """Fix the batch of a slot (the reports that open) and send its request, or close it."""
        keys = self.keys_of_slot(slot_s)
        reports = sorted(self._names("report", slot_s).items())
        entries = []
        for _, payload in reports:
            report = Report.decode(self.group.id, payload)
            if keys is None or self._open_share(keys, report) is None:
                effects.refusals.append("unopened")
            else:
                entries.append(report.entry)
        if keys is None or len(entries) < self.group.smallest_crowd:
            effects.refusals.append("too_few")
            self._close(effects, slot_s, "too_few")
            return
        chunks = message.split_entries(entries)
        digest = message.batch_digest(self.group.id, slot_s, entries)
        batch = Batch(slot_s, digest, keys.public, len(entries), len(chunks))
        for index, chunk in enumerate(chunks):
            payload = Chunk(batch, index, chunk).encode(self.group.id, self.identity.sign)
            self._put(effects, RowKey("request", slot_s, f"{index:02}"), payload)
            effects.messages.append(Outgoing("request", payload))

    def _batch(self, slot_s: int) -> tuple[Batch | None, list[Entry]]:
        """Return the batch of a slot's open request, with its entries; (None, []) if no request is open."""
        entries: list[Entry] = []
        batch = None
        for _, payload in sorted(self._names("request", slot_s).items()):
            chunk = Chunk.decode(self.group.id, payload).message
            batch = chunk.batch
            entries += chunk.entries
        return batch, entries

    def _open_share(self, keys: DayKeys, report: Report) -> int | None:
        hpke_info = seal_info(SHARE, self.group.id, report.slot_s, keys.id, report.label.encode("ascii"))
        return keys.unseal_number(report.share, hpke_info)

    def _count_answer(self, effects: Effects, answer: Answer, counted_entries: Iterable[Entry]) -> None:
        """Close a slot with the total of shares, helper's sum and noise, if the answer can be opened."""
        slot_s, group, entries = answer.slot_s, self.group, list(counted_entries)
        keys = self.keys_of_slot(slot_s)
        if len(entries) < group.smallest_crowd:
            effects.refusals.append("too_few")
            self._close(effects, slot_s, "too_few")
            return
        if keys is None or keys.id != answer.leader_key:
            effects.refusals.append("unknown_key")
            return
        digest = message.batch_digest(group.id, slot_s, entries)
        helper_total = keys.unseal_number(answer.total, seal_info(TOTAL, group.id, slot_s, keys.id, digest))
        if helper_total is None:
            effects.refusals.append("unopened")
            return
        payloads = [self._names("report", slot_s)[entry.label] for entry in entries]
        shares = [self._open_share(keys, Report.decode(group.id, payload)) for payload in payloads]
        reports_digest = message.reports_digest(group.id, slot_s, payloads)
        noise = draw_noise(keys.noise, group.id, slot_s, reports_digest, group.loss_per_quantum)
        quanta = to_signed_64(sum_modulo([helper_total, noise, *(share or 0 for share in shares)]))
        self._publish(effects, slot_s, quanta, len(entries))

    def _publish(self, effects: Effects, slot_s: int, quanta: int, homes: int) -> None:
        """Close a slot and publish its total; if the total is implausible, close the slot without a total."""
        format_ = TotalFormat(self.group)
        if not format_.is_plausible(quanta, homes):
            effects.refusals.append("implausible")
            self._close(effects, slot_s, "implausible")
            return
        record = format_.encode_record(slot_s, quanta, homes)
        self._close(effects, slot_s, record=record)
        effects.messages.append(Outgoing("total", record))

    def _close(self, effects: Effects, slot_s: int, reason: str = "", record: bytes = b"") -> None:
        """Close a slot with a record or the reason why it has none; delete its reports and its request."""
        for table in ("report", "request"):
            self._delete(effects, table, slot_s)
        self._put(effects, RowKey("closed", slot_s), record or _REFUSED + reason.encode("ascii"))


def read_outcome(closed: bytes) -> tuple[str, int]:
    """Return ("total", number of counted homes) for a row of the table `closed`, or (reason, 0)."""
    if closed.startswith(_REFUSED):
        return closed.removeprefix(_REFUSED).decode("ascii"), 0
    return "total", json.loads(closed)["homes"]
