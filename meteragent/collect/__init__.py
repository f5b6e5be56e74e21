"""The receiving side as a service: `meteragent collect` receives private records and stores each record once.

    broker -> source (unacknowledged messages) -> core (effects of messages) -> sink (one transaction)
              ^                                                                 |
              |__________________________ acknowledge __________________________|

`service` takes a batch of messages from the source and gives it to the core, which needs neither I/O nor a
clock. The core parses descriptors and records with `consume`, checks each record against its descriptor, and
returns rows, descriptors, records that wait for their descriptor, and refusals by reason. The sink writes all
of them in one transaction. The messages are acknowledged only after the commit, so a crash at any moment
loses no message: the broker sends unacknowledged messages again, and a row that is already in the table
changes nothing.

Rules
1. A message is acknowledged only after its effect has been committed: a row, a descriptor, a waiting
   record, or a count of refusals. The exception is an MQTT message that is too large to be read.
2. The first value of a (stream, meter, time, band) is never changed. The same value again has no effect;
   a different value is refused and counted.
3. A record whose descriptor is unknown waits in the sink until the descriptor arrives; the time and the
   number of such records are limited. The record is acknowledged, because brokers stop sending when too
   many messages are unacknowledged.
4. While the sink is unavailable, no message is acknowledged. The number of messages in memory is bounded.
5. If the data of a batch cannot be stored, it is halved until the faulty message is alone, which is refused.
   So no message of one meter holds up messages of others.
6. A refusal may be counted more than once, because a broker may deliver a message again after a crash.
"""
