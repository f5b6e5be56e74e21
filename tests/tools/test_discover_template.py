"""Home Assistant's value templates that a stranger on the broker made to cost."""

import pytest

from meteragent.decode.dialects import translate_path
from meteragent.tools.discover.describe import home_assistant
from tests.support.steps import ending

SIZE = 60_000
COSTLY = {
    "no end": "{{" + " " * SIZE,
    "many braces": "{" * SIZE,
    "dashes": "{{" + "-" * SIZE,
    "spaces before another word": "{{ x|round" + " " * SIZE + "y }}",
    "spaces in brackets": "{{ x|round(" + " " * SIZE + "y) }}",
    "numbers without an end": "{{ x|round(" + "1," * (SIZE // 2) + " }}",
    "a word": "{{ x|round(" + "a" * SIZE + " }}",
    "digits": "{{ x|round(" + "1" * SIZE + "x) }}",
    "quotes": "{{ x|default('" + "'" * SIZE + " }}",
    "filters": "{{ x" + "|round" * (SIZE // 6) + "|y }}",
    "steps": "{{ value_json" + ".a" * (SIZE // 2) + "! }}",
}


@pytest.mark.parametrize("what", COSTLY)
def test_a_template_of_any_form_is_judged_at_once(what: str) -> None:
    """A template as long as a payload is refused in time that grows as its length does."""
    with ending(cpu_s=2):
        path, problem = home_assistant._path_of(COSTLY[what])
        translate_path(COSTLY[what])
    assert path is None
    assert problem is not None


@pytest.mark.parametrize(
    "template",
    [
        "{{ value_json.power }}",
        "{{value_json.power|float}}",
        " {{- value_json.power | float( 0 ) | round( 1 , method = 'floor' ) -}} ",
        "{{ value_json.power | default(none) | int(default=0) | is_defined }}",
        "{{ value_json['power'] | round ( -1.5, \"x\" ) }}",
    ],
)
def test_filters_that_do_not_scale_are_dropped(template: str) -> None:
    """Spaces, dashes, constants and named arguments are read as Home Assistant reads them."""
    assert home_assistant._path_of(template) == ("power", None)
