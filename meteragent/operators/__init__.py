"""The two operators of a crowd as services: `meteragent crowd leader` and `meteragent crowd helper`.

Theory of operation
-------------------
`meteragent.crowd` decides what an operator does; this package gives it messages, time, a disk and randomness.
One round of the service takes messages in the order of their arrival, asks the machine for its effects,
commits them in one transaction, and only then lets messages leave. A machine built from the committed rows
continues where the last one stopped, so after a crash at any point it repeats the same bytes or moves on.

    configuration  the file of an operator
    identity       its Ed25519 key on disk
    store          its rows and its ledger, in SQLite; a restored copy is refused
    published      the key list from before a new store
    desk           one round: messages and time in, a step to commit out; no I/O and no clock
    departures     messages that wait for their instant and for the broker's answer
    link           the connection to the broker
    silence        the last slot without a report or a request
    vitals         what `crowd health` prints
    service        the loop

Rules of time (crowd.md 8):
1. The time of a message is that of its arrival, read before it waits for other work. The time of a tick is
   its instant, a multiple of 10 s, even if it runs later.
2. A message leaves at its instant or, if the work took longer, at the next multiple of a minute.
3. Requests and answers are acknowledged as they arrive: the leader sends its request again until it is
   answered, so nothing is lost. Reports are released after the commit that holds them and, while a draw may
   run, not before the instant at which its total leaves: they are acknowledged then, and count until then
   towards the number that pauses reading. Paused reading resumes no earlier either.
4. Requests and answers are taken one by one, each in its own commit. Those that have waited too long when
   their own work would begin are dropped and counted. An answer whose instant has passed when its work ends
   is committed and dropped; it leaves when the leader asks again.
"""
