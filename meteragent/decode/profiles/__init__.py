"""The profiles of known devices, by name: one module a family."""

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import shelly

_FAMILIES: tuple[tuple[Profile, ...], ...] = (shelly.PROFILES,)

PROFILES: dict[str, Profile] = {one.name: one for family in _FAMILIES for one in family}
"""Every profile there is, in the order in which `discover` tries them."""
