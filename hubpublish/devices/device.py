"""What a result must fit: a profile, on one runtime or on any."""

from __future__ import annotations

from dataclasses import dataclass

from hubpublish.devices.profiles import Profile
from hubpublish.devices.runtimes import Runtime


@dataclass(frozen=True)
class Device:
    """A device as a recipe or a command names it.

    Attributes:
        profile: What it grants.
        runtime: What runs the model there; None: of every listed runtime the worst counts.
        enforce_sizes: Whether a tensor that is larger than the profile grants is a reason to refuse.
    """

    profile: Profile
    runtime: Runtime | None = None
    enforce_sizes: bool = False
