"""Totals of a group of homes, with noise from two operators, as specified in docs/crowd.md.

Theory of operation
-------------------
A home splits its energy m in a slot, in quanta, into a pad P and a share s = m - P modulo 2^64. The pad is
sealed to the helper and the share to the leader. The helper adds up the pads, and the leader adds up the
shares; each adds one draw of discrete Laplace noise. Their sum is the energy of all homes plus two draws, and
neither operator can remove the other's draw.

Nothing in this package has a clock, a network, a disk or randomness of its own: times, messages and random
bytes are arguments. An operator's state is a set of rows. A step returns the rows that must be committed and
the messages that may be sent after that, so a process that is killed at any point resumes from its rows
(`machine`).

    group     the public file of a group, and its id
    codec     reading and writing the bytes of messages
    message   every message
    seal      HPKE, signatures, keys of a day
    share     arithmetic modulo 2^64
    draw      noise from an operator's key
    machine   rows and effects; leader and helper use them
    leader    the leader's steps
    helper    the helper's steps
    total     the published record and its descriptor

`group`, `share` and `total` need no extra package; the others need the `crowd` extra.
"""
