"""What a runtime on a device can run: profiles and operator tables as data, and the code that asks them."""

from hubpublish.devices.fit import Fit, NodeWidth, measure_fit
from hubpublish.devices.profiles import PROFILES, Profile

__all__ = ["PROFILES", "Fit", "NodeWidth", "Profile", "measure_fit"]
