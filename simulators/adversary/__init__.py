"""The attackers by which every claim of privacy is judged, what they attack, and what bounds them all.

`scene` asks the question, `attackers` answer it, `mechanism` adds the noise, `bound` is what no attacker
beats if the promise is kept, and `measure` counts how often each was right. `library` makes scenes, `hidden`
tests the figures of `meteragent check`, `curve` compares error with leakage. Needs scipy
(`meteragent-simulators[analysis]`).
"""
