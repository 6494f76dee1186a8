"""Digests of what a graph computes, whatever its values and nodes are called and in which order they stand.

A value's digest is made of the operator that computes it, its attributes, and the digests of its inputs,
up to the graph's inputs and weights. Each is made twice, once without the content of the weights: where
the first differ and the second do not, two models differ in their weights alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import onnx_ir as ir

from hubpublish.errors import SourceError
from hubpublish.model import sort_topologically

_CHUNK: Final = 2**20  # bytes
_SMALL: Final = 1024  # bytes; whole numbers up to here are shapes, axes and indices, not weights
_WHOLE_NUMBERS: Final = (ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.STRING)


class Digests(NamedTuple):
    """With and without the content of weights."""

    whole: bytes
    structure: bytes


class Weight(NamedTuple):
    """A tensor by its type, shape and content; ``nbytes`` is its size in bytes."""

    digest: bytes
    nbytes: int


@dataclass
class ModelDigests:
    """Of a model, and how often it has which weight."""

    model: Digests
    weights: Counter[Weight]


def model_digests(model: ir.Model) -> ModelDigests:
    """Digest a model, a tensor at a time; the nodes are sorted, in place.

    Raises:
        UnsupportedModelError: The graph has a cycle.
        SourceError: External data is not all there.
    """
    sort_topologically(model)
    walk = _Walk()
    functions = [walk.function(function) for function in model.functions.values()]
    names = [*(value.name for value in model.graph.inputs), None, *(o.name for o in model.graph.outputs)]
    main = walk.graph(model.graph)
    return ModelDigests(
        _joined("model", repr(names), main, _opsets(model.graph), _unordered(functions)), walk.weights
    )


def tensor_digest(tensor: ir.TensorProtocol) -> bytes:
    """Of a tensor's element type, shape and content, wherever and however the file holds it."""
    digest = hashlib.sha256(f"{tensor.dtype.name} {list(tensor.shape.numpy())} ".encode())
    if isinstance(tensor, ir.ExternalTensor):
        # Not through numpy: onnx_ir would keep a mapping, or unpacked values, for each tensor.
        for chunk in _bytes_of_file(tensor):
            digest.update(chunk)
    elif tensor.dtype == ir.DataType.STRING:
        for text in tensor.numpy().reshape(-1).tolist():
            content = text if isinstance(text, bytes) else str(text).encode()
            digest.update(b"%d " % len(content) + content)
    else:
        digest.update(tensor.tobytes())
    return digest.digest()


def _bytes_of_file(tensor: ir.ExternalTensor) -> Iterator[bytes]:
    left = tensor.nbytes
    with open(tensor.path, "rb") as file:
        file.seek(tensor.offset or 0)
        while left > 0:
            chunk = file.read(min(left, _CHUNK))
            if not chunk:
                raise SourceError(
                    f"external data of tensor {tensor.name!r} ends too early",
                    where=tensor.path,
                    hint="fetch the file again",
                    kind="external_data_truncated",
                )
            left -= len(chunk)
            yield chunk


@dataclass
class _Walk:
    values: dict[ir.Value, Digests] = field(default_factory=dict)
    weights: Counter[Weight] = field(default_factory=Counter)

    def graph(self, graph: ir.Graph) -> Digests:
        """Of a graph whose surroundings were walked before."""
        inputs = []
        for number, value in enumerate(graph.inputs):
            self.values[value] = _joined("input", str(number), repr(value.type), str(value.shape))
            inputs.append(self.values[value])
        for value in graph.initializers.values():
            if value.const_value is not None:
                own = _joined("initializer", self.tensor(value.const_value))
                # One that is an input too is a default, which a caller may override.
                self.values[value] = (
                    _joined("default", own, self.values[value]) if value in self.values else own
                )
        nodes = [self.node(node) for node in graph]
        outputs = [self.value(value) for value in graph.outputs]
        # All nodes, not only those that lead to an output; and each as often as it is there.
        return _joined("graph", *inputs, "nodes", _unordered(nodes), "outputs", *outputs)

    def function(self, function: ir.Function) -> Digests:
        parameters = [
            _joined("parameter", each.name) if each.value is None else self.attribute(each)
            for each in function.attributes.values()
        ]
        identifier = map(str, function.identifier())
        return _joined("function", *identifier, _opsets(function), *parameters, self.graph(function.graph))

    def node(self, node: ir.Node) -> Digests:
        attributes = [self.attribute(node.attributes[name]) for name in sorted(node.attributes)]
        own = _joined(
            "node",
            repr((*node.op_identifier(), [bool(output.name) for output in node.outputs])),
            *(self.value(value) for value in node.inputs),
            "attributes",
            *attributes,
        )
        for number, output in enumerate(node.outputs):
            self.values[output] = _joined("output", str(number), own)
        return own

    def value(self, value: ir.Value | None) -> Digests:
        if value is None:
            return _joined("omitted")
        return self.values.get(value) or _joined("unknown", value.name or "")

    def attribute(self, attribute: ir.Attr) -> Digests:
        head = f"{attribute.name} {attribute.type.name}"
        if attribute.is_ref():
            return _joined("reference", head, attribute.ref_attr_name or "")
        match attribute.type:
            case ir.AttributeType.TENSOR:
                return _joined(head, self.tensor(attribute.value))
            case ir.AttributeType.TENSORS:
                return _joined(head, *map(self.tensor, attribute.value))
            case ir.AttributeType.GRAPH:
                return _joined(head, self.graph(attribute.value))
            case ir.AttributeType.GRAPHS:
                return _joined(head, *map(self.graph, attribute.value))
        return _joined(head, repr(attribute.value))

    def tensor(self, tensor: ir.TensorProtocol) -> Digests:
        content = tensor_digest(tensor)
        if tensor.dtype in _WHOLE_NUMBERS and tensor.nbytes <= _SMALL:
            return Digests(content, content)
        self.weights[Weight(content, tensor.nbytes)] += 1
        shape = f"weight {tensor.dtype.name} {list(tensor.shape.numpy())}"
        return Digests(content, hashlib.sha256(shape.encode()).digest())


def _unordered(digests: Sequence[Digests]) -> Digests:
    # Each kind sorted by itself: the order of the one must not depend on what the other leaves out.
    return Digests(*(b"".join(sorted(each[kind] for each in digests)) for kind in (0, 1)))


def _joined(*parts: str | Digests) -> Digests:
    return Digests(*(_digest(parts, kind) for kind in (0, 1)))


def _digest(parts: tuple[str | Digests, ...], kind: int) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part[kind]
        digest.update(b"%d " % len(content) + content)
    return digest.digest()


def _opsets(graph: ir.Graph | ir.Function) -> str:
    return repr(sorted((domain, version) for domain, version in graph.opset_imports.items()))
