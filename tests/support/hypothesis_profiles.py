"""How hard Hypothesis looks: `dev` by default, `ci` in `make test` and where CI is set, `deep` at night.

`make test` repeats its examples, so that it ends the same way twice; what runs while a file is edited draws
new ones each time. `quick` is for `make quick`: few, and a failure as it comes (run that test alone to
have it made small). `mutants` is for `make mutants`: the examples of `make test`, and a failure as it comes.
Another profile is chosen with HYPOTHESIS_PROFILE=deep or pytest's --hypothesis-profile.
"""

import os

from hypothesis import Phase, settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, print_blob=True)
settings.register_profile(
    "quick", deadline=None, max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
settings.register_profile("mutants", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("deep", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
