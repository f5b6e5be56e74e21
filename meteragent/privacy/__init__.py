"""Privacy in metric spaces: the mathematics of three papers and our extensions, usable without the agent.

The library imports nothing from the agent. A mechanism's parameters are exact (a Fraction, a Decimal, an int
or a string such as "1/220"), and its source of random bits is an argument. Mechanisms on numbers take whole
numbers of quanta, that is, values on a lattice (`DitheredLaplace` takes whole numbers of its step, a part of
the quantum).

    from meteragent.privacy import LInfLaplace, sd

    mechanism = LInfLaplace(epsilon="1/220", quantum=1, n=1)
    noisy = mechanism.release([[512], [498]])  # two windows of one slot, in quanta
    print(mechanism.loss(220), sd(mechanism))  # level 1 at 220 W; 311.1 W

Modules:

    metric, space                     points and distances
    query                             queries and their sensitivity
    mechanism                         mechanisms: they add noise and state their privacy loss
    channel                           finite mechanisms as exact matrices
    adversary, families               what a Bayesian concludes, and families of bounds on it
    inference, in_all                 bounds on an attacker's success
    composition, divergence           the privacy loss of several releases together
    floor                             lower bounds on the error of every mechanism
    accuracy, totals, usefulness      predictions of a mechanism's errors
    nested                            the best estimates from numbers and their sums
    tail                              the probability that noise alone makes a difference
    stream, curve                     consecutive windows, and load curves
    loads                             how far slot values change when the load changes
    sampling, exact                   exact samplers, exact arithmetic
    bits, bulk, keyed                 sources of random bits

`optimality`, `certificate`, `audit` (with `dither` and `statistics`) and `conformance` need scipy, and their
names are not exported here. README.md beside this file maps every item of the papers to the name that
implements it, if there is one, and to the test that checks it.

Names are loaded on first use, because a gateway needs few of them. `__init__.pyi` lists the module from which
each name is imported.
"""

from meteragent.privacy.demand import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
