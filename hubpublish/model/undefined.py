"""Values that are used and that nothing gives: no runtime loads such a model, and it is refused by name.

``onnx_ir`` makes up a value for each of them, so that a rewrite would seem to work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import onnx

from hubpublish.errors import UnsupportedModelError

NAMED: Final = 5  # so many the message names; the details hold all

_A = onnx.AttributeProto


def refuse(proto: onnx.ModelProto, path: Path) -> None:
    """Raise if a node uses, or a graph is to give, a value that is not there.

    A node may use values of its graph, whatever their order, and in a body those of the graphs around it.
    A function sees only its own. An empty name stands for an input or output that is left out.

    Raises:
        UnsupportedModelError: With the values and what uses them.
    """
    found = list(_in_graph(proto.graph, (), "main"))
    for function in proto.functions:
        label = f"{function.domain}::{function.name}" + (f":{function.overload}" if function.overload else "")
        own = {*function.input, *_made(function.node)}
        found += _in_nodes(function.node, (own,), label)
        found += _missing_outputs(function.output, (own,), label)
    if not found:
        return
    more = f"; and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    raise UnsupportedModelError(
        f"the model is not valid: {'; '.join(found[:NAMED])}{more}",
        where=str(path),
        hint="make it an input or an initializer, or export the model again; no runtime can load it as it is",
        details={"found": found},
    )


def _made(nodes: Iterable[Any]) -> Iterator[str]:
    return (name for node in nodes for name in node.output)


def _in_graph(graph: onnx.GraphProto, outer: Sequence[set[str]], scope: str) -> Iterator[str]:
    own = {each.name for each in (*graph.input, *graph.initializer)}
    own.update(sparse.values.name for sparse in graph.sparse_initializer)
    own.update(_made(graph.node))
    yield from _in_nodes(graph.node, (*outer, own), scope)
    yield from _missing_outputs((each.name for each in graph.output), (*outer, own), scope)


def _in_nodes(nodes: Iterable[Any], seen: Sequence[set[str]], scope: str) -> Iterator[str]:
    for node in nodes:
        for name in dict.fromkeys(node.input):
            if name and not any(name in values for values in reversed(seen)):
                yield f"{_op(node)} {_label(node)} in {scope} uses the value {name!r}, which nothing gives"
        for attribute in node.attribute:
            if attribute.type == _A.GRAPH and not attribute.ref_attr_name:
                yield from _in_graph(attribute.g, seen, f"{scope}/{_label(node)}.{attribute.name}")
            elif attribute.type == _A.GRAPHS:
                for number, body in enumerate(attribute.graphs):
                    yield from _in_graph(body, seen, f"{scope}/{_label(node)}.{attribute.name}[{number}]")


def _missing_outputs(names: Iterable[str], seen: Sequence[set[str]], scope: str) -> Iterator[str]:
    for name in names:
        if name and not any(name in values for values in reversed(seen)):
            yield f"output {name!r} of {scope} is a value which nothing gives"


def _op(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _label(node: onnx.NodeProto) -> str:
    return node.name or next(filter(None, node.output), node.op_type)
