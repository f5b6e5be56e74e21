"""How hard Hypothesis looks: `dev` by default, `ci` where CI is set, `deep` for a long night.

Another one is chosen with HYPOTHESIS_PROFILE=deep or pytest's --hypothesis-profile.
"""

import os

from hypothesis import settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=200, derandomize=True, print_blob=True)
settings.register_profile("deep", deadline=None, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
