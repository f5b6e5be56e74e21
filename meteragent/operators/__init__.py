"""The two operators of a crowd as services: `meteragent crowd leader` and `meteragent crowd helper`.

`meteragent.crowd` decides what an operator does. This package supplies the messages, the time, a store and
random bytes. A round of the service (`service`) takes messages and ticks in the order of their times. Each
step of a round (`desk`) asks the machine for its effects, commits them in one transaction, and only then
sends messages. A machine built from the committed rows continues where the former machine stopped. So after a
crash at any point, it sends the same bytes again or continues.

Rules of time (crowd.md 4):
1. The time of a message is the time of its arrival, read before the message waits for other work. The time of
   a tick is its instant, a multiple of 10 s, even if the tick runs later.
2. A message is sent at a public instant (crowd.md 4) or, if the work took longer, at the next full minute.
3. Requests and answers are acknowledged as they arrive. Nothing is lost, because the leader sends its request
   again until it is answered. Reports are released after their commit: they are acknowledged, and no longer
   count towards the number at which reading pauses. After a step in which the leader has drawn noise, no
   report is released, and paused reading does not resume, before the instant at which the total is sent.
4. Requests and answers are taken one by one, each in its own commit. A request or answer that has waited too
   long before its work begins is dropped and counted. If the instant of the helper's answer has passed when
   the work ends, the answer is committed but not sent; it is sent when the leader asks again.
"""
