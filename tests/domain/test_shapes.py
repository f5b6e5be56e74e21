"""What a kind of window states of its number fits together, for each kind that there is."""

import pytest

from meteragent.domain.shapes import SHAPES, Accumulator, Amount, Banded, Bands, Curve, Excess, Peak, Shape

KINDS = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))


@KINDS
def test_a_largest_part_is_drawn_again(shape: type[Shape]) -> None:
    """What the disk has of a maximum is masked by one draw, so a restart draws, and charges, another."""
    is_largest = shape.accumulator is Accumulator.LARGEST
    assert shape.has_parts is shape.is_redrawn is is_largest


@KINDS
def test_only_a_sum_is_stored_as_a_difference(shape: type[Shape]) -> None:
    """The register minus the accumulator tells nothing only if the accumulator grows with the register."""
    if shape.is_difference_stored:
        assert shape.accumulator is Accumulator.SUM
        assert shape.is_additive
        assert shape.counts_all
        assert not shape.is_priced


@pytest.mark.parametrize(
    ("kind", "spaces"),
    [
        (Amount, {"weighted"}),
        (Banded, {"bands", "profile"}),
        (Bands, {"bands"}),
        (Curve, {"curve"}),
        (Excess, {"above"}),
        (Peak, {"peak"}),
    ],
)
def test_a_function_of_the_receiver_takes_the_kinds_it_is_meant_for(
    kind: type[Shape], spaces: set[str]
) -> None:
    """A kind that inherits from another is taken for it by what asks for a class."""
    assert {str(space) for space, shape in SHAPES.items() if issubclass(shape, kind)} == spaces
