"""What stands in the way of a model on a device, node by node, and which passes may remove it.

``findings.py`` looks at the nodes, ``remedies.py`` asks the passes, ``groups.py`` puts equal findings
together, ``by_runtime.py`` tells the runtimes apart, ``choice.py`` picks passes by them, ``requirements.py``
says what an app must ask of a device.
"""

from hubpublish.inspection.choice import Auto
from hubpublish.inspection.findings import inspect
from hubpublish.inspection.models import Finding, Group, Inspection, Summary, Totals
from hubpublish.inspection.requirements import Requirements, webgpu_requirements

__all__ = [
    "Auto",
    "Finding",
    "Group",
    "Inspection",
    "Requirements",
    "Summary",
    "Totals",
    "inspect",
    "webgpu_requirements",
]
