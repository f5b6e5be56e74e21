"""The helper: accepts the leader's request for a slot and gives the slot its one answer (crowd.md 3.4).

The tables of rows are `mark` and `secret` (see `machine`), `batch` by slot (the batch fixed by the first
accepted chunk), `chunk` by slot and index, and `answer` by slot (the one answer, which may be a refusal).
"""

from meteragent.crowd import message
from meteragent.crowd.codec import Malformed
from meteragent.crowd.draw import draw_noise
from meteragent.crowd.machine import Effects, Machine, Outgoing, RowKey
from meteragent.crowd.message import Answer, Batch, Chunk, Entry, Refusal
from meteragent.crowd.seal import PAD, TOTAL, DayKeys, is_signed, key_id, seal_info, seal_number
from meteragent.crowd.share import sum_modulo

_UNANSWERED = ("unknown_slot", "too_few")
"""Reasons that are counted but not sent: `too_few` would make the leader close a slot that can still be
answered, and refusal messages have no number for `unknown_slot`."""


class Helper(Machine):
    """The helper of one group."""

    role = "helper"
    topics = ("request",)

    def take_message(self, topic: str, payload: bytes, now_s: int) -> Effects:  # noqa: ARG002  there is one topic
        """Take a chunk of a request, the only kind of message that arrives; see `take_request`."""
        return self.take_request(payload, now_s)

    def take_request(self, payload: bytes, now_s: int) -> Effects:
        """Accept a chunk of a request; answer if its batch is complete, or repeat an earlier answer."""
        effects = Effects()
        try:
            signed_chunk = Chunk.decode(self.group.id, payload)
        except Malformed as error:
            effects.refusals.append(error.refusal)
            return effects
        if not is_signed(self.group.public_keys["leader"], signed_chunk.body, signed_chunk.signature):
            effects.refusals.append("bad_signature")
            return effects
        chunk, batch = signed_chunk.message, signed_chunk.message.batch
        reason = self._refusal_of(chunk, payload, now_s)
        answer = self._get("answer", batch.slot_s)
        if reason in _UNANSWERED:
            effects.refusals.append(reason)
        elif reason:
            effects.refusals.append(reason)
            effects.messages.append(Outgoing("answer", self._refusal(batch, reason)))
        elif answer:
            effects.messages.append(Outgoing("answer", answer))
        else:
            self._put(effects, RowKey("batch", batch.slot_s), batch.encode())
            self._put(effects, RowKey("chunk", batch.slot_s, f"{chunk.place:02}"), payload)
            if len(self._names("chunk", batch.slot_s)) == batch.chunks:
                self._answer_request(effects, batch)
        self._delay_messages(effects, now_s, batch.homes)
        return effects

    def tick(self, now_s: int) -> Effects:
        """Delete the chunks of expired slots and, once the day's secret is destroyed, batches and answers."""
        effects = Effects()
        for slot_s in sorted(self._tables["chunk"]):
            if now_s >= self.group.expiry_s(slot_s):
                self._delete(effects, "chunk", slot_s)
        for table in ("batch", "answer"):
            self._delete_expired(effects, table, now_s)
        return effects

    def is_closed(self, slot_s: int, now_s: int) -> bool:
        """Return whether a slot has its one answer or has expired."""
        return bool(self._get("answer", slot_s)) or now_s >= self.group.expiry_s(slot_s)

    def _refusal_of(self, chunk: Chunk, payload: bytes, now_s: int) -> str | None:
        """Return the reason to refuse a chunk, if any; such a refusal is not the slot's one answer."""
        batch = chunk.batch
        slot_s = batch.slot_s
        fixed_batch = self._get("batch", slot_s)
        stored_chunk = self._get("chunk", slot_s, f"{chunk.place:02}")
        is_answered = self._get("answer", slot_s) is not None
        conditions = (
            (not self.group.is_slot(slot_s), "unknown_slot"),
            (now_s <= self.group.closing_s(slot_s), "early"),
            (now_s >= self.group.expiry_s(slot_s), "expired"),
            (fixed_batch is not None and fixed_batch != batch.encode(), "other_batch"),
            (stored_chunk is not None and stored_chunk != payload, "other_batch"),
            (not is_answered and self.keys_of_slot(slot_s) is None, "expired"),
            (fixed_batch is None and batch.homes < self.group.smallest_crowd, "too_few"),
        )
        return next((reason for refused, reason in conditions if refused), None)

    def _answer_request(self, effects: Effects, batch: Batch) -> None:
        """Give a slot its one answer, when its request is complete; delete the request's chunks."""
        entries: list[Entry] = []
        for _, payload in sorted(self._names("chunk", batch.slot_s).items()):
            entries += Chunk.decode(self.group.id, payload).message.entries
        keys = self.keys_of_slot(batch.slot_s)
        if keys is None or not is_announced(self.group.id, batch, entries):
            effects.refusals.append("malformed")
            payload = self._refusal(batch, "malformed")
        else:
            payload = self._total_pads(effects, batch, entries, keys)
        self._put(effects, RowKey("answer", batch.slot_s), payload)
        self._delete(effects, "chunk", batch.slot_s)
        effects.messages.append(Outgoing("answer", payload))

    def _total_pads(self, effects: Effects, batch: Batch, entries: list[Entry], keys: DayKeys) -> bytes:
        """Open the pads of a batch and return the signed answer with the sealed total, or a refusal."""
        group, slot_s = self.group, batch.slot_s
        pads = [self._open_pad(keys, slot_s, entry) for entry in entries]
        rejected_indices = tuple(index for index, pad in enumerate(pads) if pad is None)
        counted_entries = [entry for entry, pad in zip(entries, pads, strict=True) if pad is not None]
        if len(counted_entries) < group.smallest_crowd or len(rejected_indices) > message.REJECTED_MAX:
            effects.refusals.append("too_few")
            return self._refusal(batch, "too_few")
        digest = message.batch_digest(group.id, slot_s, counted_entries)
        noise = draw_noise(keys.noise, group.id, slot_s, digest, group.loss_per_quantum)
        value = sum_modulo([noise, *(pad for pad in pads if pad is not None)])
        leader_key = key_id(batch.leader_key)
        hpke_info = seal_info(TOTAL, group.id, slot_s, leader_key, digest)
        try:
            sealed = seal_number(value, batch.leader_key, hpke_info)
        except ValueError:  # nothing can be sealed to the key that the request names
            effects.refusals.append("malformed")
            return self._refusal(batch, "malformed")
        answer = Answer(slot_s, batch.digest, batch.homes, rejected_indices, leader_key, sealed)
        return answer.encode(group.id, self.identity.sign)

    def _open_pad(self, keys: DayKeys, slot_s: int, entry: Entry) -> int | None:
        """Return the pad of an entry; None if it is not sealed to this day's key for this slot and home."""
        if entry.key_id != keys.id:
            return None
        hpke_info = seal_info(PAD, self.group.id, slot_s, keys.id, entry.label.encode("ascii"))
        return keys.unseal_number(entry.pad, hpke_info)

    def _refusal(self, batch: Batch, reason: str) -> bytes:
        return Refusal(batch.slot_s, batch.digest, reason).encode(self.group.id, self.identity.sign)


def is_announced(group_id: bytes, batch: Batch, entries: list[Entry]) -> bool:
    """Return whether the entries of all chunks, in order, match the batch announced in each chunk."""
    # A leader could repeat a label in another chunk, and so add the home with that label twice.
    labels = [entry.label for entry in entries]
    is_ascending = labels == sorted(set(labels))
    digest = message.batch_digest(group_id, batch.slot_s, entries)
    return len(entries) == batch.homes and is_ascending and digest == batch.digest


def read_outcome(group_id: bytes, answer: bytes) -> tuple[str, int]:
    """Return ("answer", number of counted homes) for a row of the table `answer`, or (reason, 0)."""
    if message.message_type(answer) == message.REFUSAL:
        return Refusal.decode(group_id, answer).message.reason, 0
    reply = Answer.decode(group_id, answer).message
    return "answer", reply.homes - len(reply.rejected)
