"""Privacy in metric spaces: the mathematics of three papers and our extensions, usable without the agent.

The library imports nothing from the agent. A mechanism's parameters are exact (a Fraction, a Decimal, an int
or a string such as "1/220"), and its source of random bits is an argument. Mechanisms on numbers take whole
numbers of quanta, that is, values on a lattice (`DitheredLaplace` takes whole numbers of its step, a part of
the quantum).

    from meteragent.privacy import LInfLaplace, sd

    mechanism = LInfLaplace(epsilon="1/220", quantum=1, n=1)
    noisy = mechanism.release([[512], [498]])  # two windows of one slot, in quanta
    print(mechanism.loss(220), sd(mechanism))  # level 1 at 220 W; 311.1 W

README.md next to this file says which module is for what, and maps every item of the papers to the name that
implements it, if there is one, and to the test that checks it. `optimality`, `certificate`, `audit` (with
`dither` and `statistics`) and `conformance` need scipy, and their names are not exported here.

Names are loaded on first use, because a gateway needs few of them. `__init__.pyi` lists the module from which
each name is imported.
"""

from meteragent.privacy.demand import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
