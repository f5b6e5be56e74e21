"""The attackers that test every claim of privacy, their targets, and the bounds on all attackers.

`scene` poses the question, `attackers` answer it, and `mechanism` adds the noise. `bound` computes the
success rate that no attacker exceeds if the promise is kept, and `measure` counts how often each attacker is
right. `library` makes scenes, `hidden` tests the figures of `meteragent check`, and `curve` compares error
with leakage. The package needs scipy (`meteragent-simulators[analysis]`).
"""
