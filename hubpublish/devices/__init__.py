"""What a runtime on a device can run: profiles and operator tables as data, and the code that asks them."""

from hubpublish.devices.device import Device
from hubpublish.devices.fit import Fit, NodeWidth, measure_fit
from hubpublish.devices.profiles import PROFILES, Profile
from hubpublish.devices.runtimes import Runtime, read_runtime, runtime_names

__all__ = [
    "PROFILES",
    "Device",
    "Fit",
    "NodeWidth",
    "Profile",
    "Runtime",
    "measure_fit",
    "read_runtime",
    "runtime_names",
]
