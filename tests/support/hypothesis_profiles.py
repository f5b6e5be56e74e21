"""Hypothesis profiles: `dev` by default, `ci` in `make test` and where CI is set, `deep` for nightly runs.

`ci` draws the same examples in every run, so that results are reproducible; `dev` draws new ones. For this,
`ci` draws none of the constants that stand in the code: Hypothesis knows only those of imported modules, so a
test that runs alone would draw others than among all tests. `quick`, for `make quick`, draws few examples and
does not shrink failures; to shrink one, run the failing test alone. `mutants`, for `make mutants`, draws the
examples of `ci` and does not shrink failures.
HYPOTHESIS_PROFILE=deep or pytest's --hypothesis-profile selects another profile.
"""

import os

from hypothesis import Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, print_blob=True)
settings.register_profile(
    "quick", deadline=None, max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
settings.register_profile("mutants", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("deep", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
if settings().derandomize:
    providers._get_local_constants = Constants
