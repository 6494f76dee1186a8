"""Taking a node's inputs away, in time linear in their number.

onnx_ir does that when it removes a node, one by one, and makes a tuple of all inputs each time: for a Concat
of ten thousand inputs that is seconds. It has no way of its own to do it at once.
"""

from __future__ import annotations

import onnx_ir as ir


def release_inputs(node: ir.Node) -> None:
    """Make the node use nothing. It can then only be removed."""
    for index, value in enumerate(node.inputs):
        if value is not None:
            value._remove_usage(node, index)
    node._inputs = ()
