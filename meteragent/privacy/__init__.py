"""Privacy in metric spaces: the mathematics of three papers and our own, exact, usable alone.

It knows nothing of the agent. Parameters are exact (a Fraction, a Decimal, an int or a string such as
"1/220"), random bits are an argument. Points of a mechanism are whole quanta: values on a lattice.

    from meteragent.privacy import LInfLaplace, sd

    mechanism = LInfLaplace(epsilon="1/220", quantum=1, n=1)
    noisy = mechanism.release([[512], [498]])  # two windows of one slot, in quanta
    print(mechanism.loss(220), sd(mechanism))  # level 1 at 220 W; 311.1 W

What is where: `metric`, `space` points and distances; `query` sensitivities; `mechanism` what adds noise and
states its promise; `channel` finite mechanisms as exact matrices; `adversary` what a Bayesian learns;
`composition`, `divergence` what releases cost together; `floor` what no mechanism can beat; `accuracy`,
`totals`, `usefulness` errors before they are made; `inference` how often anybody can be right; `stream`,
`curve` windows in a row and load curves; `exact`, `bits`, `keyed`, `sampling` the ground. Not among its
names, because they need scipy: `optimality`, `certificate`, `audit`, `conformance`. README.md beside this
file maps every numbered result of the papers to the name that implements it and the test that shows it.

A name is loaded when it is first asked for: a gateway needs few of them. `__init__.pyi` says whose it is.
"""

from meteragent.privacy.demand import on_demand

__getattr__, __dir__, __all__ = on_demand(__name__, __file__)
