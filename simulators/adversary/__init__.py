"""The attackers by which every claim of privacy is judged, what they attack, and what bounds them all.

`scene` says what is asked, `attackers` who answers, `mechanism` what noised it, `bound` what nobody beats if
the promise is kept, `measure` how often each was right; `library` makes scenes, `hidden` confirms the figures
of `meteragent check`, `curve` sets error against leakage. Needs scipy (`meteragent-simulators[analysis]`).
"""
