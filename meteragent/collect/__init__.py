"""The receiving side as a service: `meteragent collect` receives private records and keeps each one once.

    broker -> source (what waits, unacknowledged) -> core (what a message means) -> database (one transaction)
                ^                                                                       |
                |___________________________________ acknowledge _______________________|

Theory of operation
    `service` takes a batch of messages from the source and gives it to the core, which needs neither I/O nor
    a clock: it parses descriptors and records with `consume`, checks each record against its descriptor, and
    returns rows, descriptors, records that wait for their descriptor, and refusals by reason. The database
    writes all of it in one transaction. Only after the commit are the messages acknowledged, so a crash or a
    kill at any moment costs nothing: the broker sends unacknowledged messages again, and a row that is
    already in the table changes nothing.

Rules
    1. A message is acknowledged only after the commit that holds its effect: a row, a descriptor, a waiting
       record, or a count of refusals.
    2. The first value of a (stream, meter, time, band) stays. The same value again changes nothing; a
       different value is refused and counted.
    3. A record whose descriptor is unknown waits in the database until the descriptor arrives. It does not
       wait unacknowledged, because brokers stop sending when too many messages are unacknowledged.
    4. While the database is unavailable, nothing is acknowledged. The number of messages in memory is
       bounded.
    5. A refusal may be counted more than once: after a crash, a broker may deliver the message again.

`topic` says which stream and meter a topic names, and `core` what a message means. `configuration` has the
keys of the file (`broker` those of its table `[source]`). `source` is the protocol for delivering messages,
which `mqtt`, `nats` and `kafka` implement; `subject` writes topics as NATS subjects. `sink` is the protocol
for keeping records, which `database` implements. `service` is the loop. The tables and views are in
`migrations`. `parquet` is the other sink: `dataset` stages rows and moves them into the files of
`record_file`. `consume.read_table` reads the records of either sink, from which exact intervals are computed.
"""
