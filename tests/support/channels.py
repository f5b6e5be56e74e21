"""Random channels for tests."""

from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st

from meteragent.privacy.channel import Channel, Number, exp

FEW = settings(max_examples=-(-settings().max_examples // 4))
"""For exact statements about all channels: wrong ones fail on most channels, and each example is slow."""

VERY_FEW = settings(max_examples=-(-settings().max_examples // 16))
"""For statements of which each example is a family of bounds."""

POWERS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(-1)])
LEVELS = st.fractions(Fraction(1, 10), 3, max_denominator=20)
ODDS = st.one_of(LEVELS.map(exp), st.fractions(1, 9, max_denominator=9).map(lambda odds: odds * exp(0)))


@st.composite
def channels(
    draw: st.DrawFn, inputs: int = 3, outputs: int = 3, minimum: int = 0, *, is_rational: bool = False
) -> Channel:
    """Draw a random channel from {0, 1, ..} to {0, 1, ..}.

    Weights are integers from `minimum` to 6. Unless `is_rational`, the weights of even outputs are multiplied
    by a power of e that is drawn for each input.
    """
    weights = st.lists(st.integers(minimum, 6), min_size=outputs, max_size=outputs).filter(any)
    table = draw(st.lists(weights, min_size=inputs, max_size=inputs))
    powers = [Fraction(0) if is_rational else draw(POWERS) for _ in range(inputs)]

    def weight(x: int, z: int) -> Number:
        """Return the weight of an output for an input."""
        return table[x][z] * (exp(powers[x]) if z % 2 == 0 else exp(0))

    return Channel.of_weights(range(inputs), range(outputs), weight)
