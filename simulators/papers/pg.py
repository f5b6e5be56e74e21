"""Pauwels, Gerchinovitz 2016: Examples 1 to 6 and Proposition 2, in numbers."""

import math
from fractions import Fraction

import numpy as np

from meteragent.privacy import (
    Categorical,
    Categories,
    Databases,
    Exponential,
    Laplace,
    NoisyMax,
    RandomisedResponse,
    RandomRow,
    VectorLaplace,
    error_bounds,
)
from simulators.papers.table import Line, Table

NAMES = 10_000
"""The number of first names in Example 3."""

BIDS_CENTS = (100, 100, 300)
PRICES_CENTS = (100, 101, 300, 301)


def example_1() -> Table:
    """Compute the odds of an answer that two fair coins randomise."""
    coins = RandomisedResponse()
    yes = np.exp(coins.log_mass([True], point=True)[0])
    lines = [
        Line("P(yes | yes)", yes, "3/4", "0.75"),
        Line("odds", coins.odds, "3", "3"),
        Line("ε", math.log(coins.odds), "ln 3", "1.0986"),
    ]
    return Table("PG Example 1: one bit, answered by two fair coins", lines)


def example_2() -> Table:
    """Compute the probability that a row is released, with and without the row in the database."""
    release = RandomRow(Databases(Categories("ab"), 5))
    chances = [math.exp(release.log_mass(["b"], list(database))[0]) for database in ("aaaaa", "aaaab")]
    lines = [
        Line("P(the row | it is not in the database)", chances[0], "0", "0"),
        Line("P(the row | it is)", chances[1], "1/n", "0.2"),
    ]
    return Table("PG Example 2: one random row of n = 5 is released; it is private for no ε", lines)


def proposition_2() -> Table:
    """Compute the floor of the sum of type I and type II errors, and the sum for randomised response."""
    lines = []
    for epsilon, floor, attained in (
        ("0.1", "0.776", "0.950"),
        ("0.5", "0.500", "0.755"),
        ("1", "0.293", "0.538"),
        ("2", "0.000", "0.238"),
    ):
        error = 2 * float(Categorical(Categories("yn"), epsilon).channel.rows[0][1])
        remark = "vacuous" if epsilon == "2" else ""
        lines += [
            Line(
                f"type I + type II ≥, ε={epsilon}", error_bounds(epsilon).pauwels, "1-√(ε/2)", floor, remark
            ),
            Line(
                f"randomised response, ε={epsilon}", error, "", attained, "no ε-private release attains less"
            ),
        ]
    return Table("PG Proposition 2: the errors of a test that distinguishes two neighbours", lines)


def example_3() -> Table:
    """Compute the bound on the largest error of 10,000 counts that holds 95% of the time."""
    lines = [Line("ln(10000/0.05)", math.log(NAMES / 0.05), "12.21", "12.2061")]
    for epsilon, printed, limit, bound, exact in (
        (2, "12.21", "12.21", "13", "12"),
        (1, "24.42", "24.41", "25", "24"),
    ):
        counts = VectorLaplace(epsilon, 1, NAMES, sensitivity=2)
        remark = "the paper doubles the rounded 12.21" if epsilon == 1 else ""
        lines += [
            Line(
                f"(Δ/ε) ln(10000/0.05), ε={epsilon}",
                math.log(NAMES / 0.05) / float(counts.a),
                printed,
                limit,
                remark,
            ),
            Line(f"the same for whole numbers, ε={epsilon}", counts.largest_error_bound(0.05), "", bound),
            Line(f"exact 95% quantile, ε={epsilon}", counts.largest_error(0.05), "", exact),
        ]
    return Table(
        "PG Example 3: 10,000 first names, sensitivity 2; bounds on all errors, 95% of the time", lines
    )


def example_4() -> Table:
    """Compute the odds of noisy max when a row is replaced, so that one count falls and another rises."""
    false = "published bound is wrong: the value exceeds ε = 1"
    equal_share, lower_share = (first_is_largest(lead) for lead in (0, -2))
    distant_odds = math.log(first_is_largest(-20) / first_is_largest(-22))
    ours = NoisyMax(1, 1, 2)
    lines = [
        Line("P(the first) of counts (1, 1)", equal_share, "", "0.5"),
        Line("P(the first) of counts (0, 2)", lower_share, "", "0.1353"),
        Line("log of the odds", math.log(equal_share / lower_share), "≤ 1", "1.307", false),
        Line(
            "log of the odds, the first 20 behind",
            distant_odds,
            "≤ 1",
            "1.913",
            "published bound is wrong: the limit is 2",
        ),
        Line("loss of NoisyMax at ε = 1", ours.loss(Fraction(1)), "", "1", "with noise twice as wide"),
        Line(
            "the same for counts that only rise",
            ours.monotone_loss(1),
            "",
            "0.5",
            "half, as published",
        ),
    ]
    return Table("PG Example 4: the largest of two counts with Laplace(1/ε) noise on each, ε = 1", lines)


def first_is_largest(lead: int, quanta: int = 256) -> float:
    """Return P(u1 + L1 > u2 + L2) for u1 - u2 = `lead` and standard Laplace noise L1 and L2.

    The probability is computed on a lattice of `quanta` points per unit, and ties count half. The
    relative error is below 1e-5.
    """
    z = np.arange(-60 * quanta, 60 * quanta + 1)
    mass = np.exp(Laplace(1, Fraction(1, quanta)).log_mass(z, 0))
    cumulative = np.concatenate([np.zeros(1), np.cumsum(mass)])
    reach = np.clip(z + lead * quanta - z[0], 0, z.size - 1)
    return float(mass @ (cumulative[reach] + mass[reach] / 2))


def revenue(price_cents: int) -> int:
    """Return the price times the number of bidders who pay it, in cents."""
    return price_cents * sum(bid >= price_cents for bid in BIDS_CENTS)


def example_5() -> Table:
    """Compute the revenues at four prices, and the prices' probabilities under the exponential mechanism."""
    revenues = [revenue(price) for price in PRICES_CENTS]
    chances = np.exp(_auction().log_mass(range(4), revenues))
    printed = ("3", "1.01", "3", "0")
    lines = []
    for price, earned, value in zip(PRICES_CENTS, revenues, printed, strict=True):
        lines.append(Line(f"revenue at a price of {price / 100:g}", earned / 100, value, value))
    for price, chance, verified in zip(
        PRICES_CENTS, chances, ("0.301", "0.216", "0.301", "0.183"), strict=True
    ):
        lines.append(Line(f"chance of a price of {price / 100:g}", chance, "", verified))
    return Table(
        "PG Example 5: bids of 1, 1 and 3, unlimited supply; price chosen by revenue, Δ_u = 3.01, ε = 1",
        lines,
    )


def example_6() -> Table:
    """Compute the utility bound of the exponential mechanism for Example 5's auction."""
    auction, revenues = _auction(), [revenue(price) for price in PRICES_CENTS]
    chances = np.exp(auction.log_mass(range(4), revenues))
    low_revenue = float(chances[np.array(revenues) <= 101].sum())
    remark = "above every revenue: useless for three bidders"
    lines = [
        Line(
            "regret, except with probability e^-1",
            auction.regret_bound(1),
            "(2Δ/ε)(t+ln 4)",
            "14.4",
            remark,
        ),
        Line("P(revenue ≤ 1.01)", low_revenue, "", "0.399"),
        Line(
            "bound on this probability",
            auction.tail_bound(revenues, 101),
            "#{u≤c}e^(ε(c-max)/2Δ)",
            "1.000",
            "vacuous",
        ),
    ]
    return Table("PG Example 6: the revenue lost against the best price, for the bids of Example 5", lines)


def _auction() -> Exponential:
    return Exponential(1, "1/100", len(PRICES_CENTS), sensitivity="3.01")
