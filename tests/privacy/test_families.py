"""Events in place of outputs, and the papers' families in full (simulators.papers.families)."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.adversary import Hiding, is_maximally_tight, largest_odds_ratio
from meteragent.privacy.channel import Channel
from meteragent.privacy.mechanism.planar import PlanarLaplace
from meteragent.privacy.metric import Metric, Nullable, Rowwise, Scaled, absolute, discrete, euclidean
from meteragent.privacy.space import Databases, Numbers, WithNull
from simulators.papers.families import (
    database_maps,
    database_sets,
    point_maps,
    point_sets,
    row_maps,
    row_sets,
)
from tests.support.channels import FEW, channels
from tests.support.draws import has_its_law

HALF = Fraction(1, 2)
priors = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


def test_a_hiding_function_is_about_events_and_not_outputs_alone() -> None:
    """Theorem 3 is about events: each of two outputs has odds of 3, their union more than e^2."""
    thousandth, sixth = Fraction(1, 1000), Fraction(1, 6)
    rows = [(HALF, thousandth), (sixth, thousandth), (thousandth, sixth), (thousandth, HALF)]
    channel = Channel("aAbB", (1, 2, 3), [[p, q, 1 - p - q] for p, q in rows])
    phi = Hiding(dict(zip("aAbB", "AABB", strict=True)).__getitem__)
    conclusions = phi.conclusions(channel, {"a": 1, "b": 99}, 1, 2)
    apart = largest_odds_ratio(*conclusions)
    assert apart is not None
    assert float(apart) == pytest.approx(8.70, abs=0.01)
    assert (
        max(largest_odds_ratio(*phi.conclusions(channel, {"a": 1, "b": 1}, z)) or 0 for z in (1, 2, 3)) <= 3
    )
    largest = phi.largest_odds(channel)
    assert largest is not None
    assert float(largest) == pytest.approx(8.93, abs=0.01)
    assert not phi.holds(channel, discrete, 1)
    witness = phi.witness(channel, discrete, 1)
    assert witness is not None
    assert witness.event == (1, 2)


@FEW
@given(channels(minimum=1), priors)
def test_conclusions_from_an_event_are_those_from_merged_outputs(
    channel: Channel, weights: list[int]
) -> None:
    """Bayes' rule for an event is that for a channel which says no more than whether it happened."""
    prior = {x: Fraction(weight, sum(weights)) for x, weight in enumerate(weights)}
    joint = [p * prior[x] for x, p in enumerate(channel.likelihood((0, 1)))]
    assert list(channel.posterior(prior, 0, 1).values()) == [p / sum(joint[1:], joint[0]) for p in joint]
    merged = channel.then(Channel(channel.outputs, "yn", [[1, 0], [1, 0], [0, 1]]))
    assert channel.posterior(prior, 0, 1) == merged.posterior(prior, "y")
    assert channel.likelihood((0, 1)) == merged.column("y")
    with pytest.raises(ValueError, match="at least one output"):
        channel.posterior(prior)


FULL = {"Phi_1": row_maps, "N_1": row_sets, "Phi_inf": database_maps, "N_inf": database_sets}


@pytest.mark.parametrize("values", [(0, 1, 3), (0, 1, None), (0, 2, 1, None)])
@pytest.mark.parametrize("family", FULL)
def test_the_papers_families_in_full(family: str, values: tuple[int | None, ...]) -> None:
    """Proposition 2 and section 6.1, with any map and any set, also of rows that may be absent."""
    if len(values) > 3 and family == "Phi_inf":
        values = values[:3]
    row = Nullable(absolute, max(v for v in values if v is not None))
    width = Fraction(max(v for v in values if v is not None))
    points = tuple(itertools.product(values, repeat=2))
    distances: dict[str, Metric] = {
        "d_1": Rowwise(row),
        "normalised d_1": Rowwise(Scaled(row, 1 / width)),
        "d_inf": Rowwise(row, "linf"),
    }
    nullable = WithNull(Numbers(0, int(width)))
    normalised = Databases(nullable, 2, "normalised l1").metric
    assert all(normalised(x, y) == distances["normalised d_1"](x, y) for x in points for y in points)
    tight = {
        name
        for name, metric in distances.items()
        if is_maximally_tight(FULL[family](values, 2), points, metric)
    }
    expected = {"d_1", "normalised d_1"} if family.endswith("_1") else set(distances)
    assert tight == expected


def test_all_maps_and_regions_of_places() -> None:
    """Phi_2 and N_2: on places of the plane both families are maximally tight for d_2 (section 6.2).

    Planar Laplace noise is epsilon d_2-private there, no less is true, and it is what is drawn.
    """
    places = ((0, 0), (1, 0), (0, 2), (3, 1), (2, 2))
    assert is_maximally_tight(point_maps(places[:4]), places[:4], euclidean)
    assert is_maximally_tight(point_sets(places), places, euclidean)
    assert not is_maximally_tight(point_sets(places)[:5], places, euclidean)
    noise = PlanarLaplace("1/2", 1)
    for x, y in itertools.permutations(places, 2):
        behind = [3 * u - 2 * v for u, v in zip(x, y, strict=True)]  # on the line through both, beyond x
        lost = float(noise.log_mass(behind, x) - noise.log_mass(behind, y))
        assert lost == pytest.approx(float(noise.loss(Fraction(euclidean(x, y)))), abs=1e-12)
    assert has_its_law(noise, (0, 0), list(itertools.product(range(-9, 10), repeat=2)))
