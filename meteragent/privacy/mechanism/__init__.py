"""Mechanisms: randomised maps with an exactly known output distribution and a stated privacy promise.

    for                                  a promise for every distance             a pair
    windows of n numbers, d_inf          LInfLaplace
    windows in parts of a quantum, d_inf DitheredLaplace
    numbers; counts 0 .. k               Laplace; TruncatedGeometric              LaplaceSanitisation
    n numbers, d_1                       VectorLaplace
    the plane, d_2; d_1                  PlanarLaplace; PlanarManhattan
    one of finitely many                                                          Categorical
    yes or no                                                                     RandomisedResponse
    which of n values is largest         NoisyMax, Exponential
    all rows of a table                  MetricProduct                            Product
    answers to a query                   After                                    OutputPerturbation

Numbers are whole quanta: round a reading x first, by floor(x/q + 1/2). Under d_inf `loss` accounts for that
rounding. Under d_1 and d_2, where the roundings of several numbers add up, `loss_before_rounding` of
`VectorLaplace` and of the planar mechanisms accounts for them. `DitheredLaplace` takes whole steps instead;
for n = 1 its `loss` does not account for rounding to steps.

`bits` is the source of randomness, by default `BulkBits` (for `DitheredLaplace`, `SystemBits`). `SeededBits`
is for examples, tests and simulations only.

    >>> import numpy as np
    >>> from meteragent.privacy import Categorical, Categories, LInfLaplace, PlanarLaplace, Product
    >>> from meteragent.privacy import Sanitised, SeededBits, count

Release two windows of three readings in W, rounded to multiples of 10 W, with level 1 at 220 W:

    >>> mechanism = LInfLaplace(epsilon="1/220", quantum=10, n=3)
    >>> quanta = np.floor(np.array([[512.0, 498, 2013], [100, 96, 104]]) / 10 + 0.5).astype(int)
    >>> mechanism.release(quanta, bits=SeededBits(1)) * 10
    array([[ 1260,   750,  1670],
           [-1040,  -480,   650]])
    >>> mechanism.loss(220), mechanism.loss(215)
    (Fraction(1, 1), Fraction(1, 1))

A table of categories, released once with (epsilon, delta) for each row, answers any number of queries:

    >>> fuels = Product(Categorical(Categories(["gas", "oil", "wood"]), epsilon=2, delta="1/100"), n=5)
    >>> table = Sanitised(fuels, ["gas", "gas", "oil", "wood", "gas"], bits=SeededBits(2))
    >>> table.released
    ('wood', 'oil', 'oil', 'wood', 'gas')
    >>> table.answer(count(fuels.space, lambda row: row == "gas")), table.answer(lambda rows: rows[0])
    (1, 'wood')
    >>> fuels.guarantee
    Guarantee(epsilon=Fraction(2, 1), delta=Fraction(1, 100))

Release a place on a grid of 10 m; an output changes the odds between two places 100 m apart by a factor of at
most e:

    >>> planar = PlanarLaplace(epsilon="1/100", quantum=10)
    >>> planar.release([123, -32], bits=SeededBits(3)) * 10
    array([1470, -340])
    >>> round(planar.expected_error), round(planar.beyond(500), 3)
    (200, 0.041)
"""

from meteragent.privacy.demand import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
