"""Large constants as nodes that compute them from small ones. Exact.

Removes: bytes of the file that say nothing, such as 42 of the 224 MB of BiRefNet: coordinates for its
deformable convolutions, each of which repeats along all axes but two.

    c = Expand(small, shape)                       whole axes repeat
    c = Gather<axis>(different, indices)           slices repeat
    c = Concat<axis>(c1, c2, ...)                  of up to 8 slices, some of which have such a form
    c = Add(first, second)                         a sum over different axes; not of float16

and these of each other. The name stays. What takes less than ``min_bytes`` stays, and a constant of which
no form saves ``min_gain`` of the bytes; one that is an input or an output, or that an annotation names; one
that is given to an operator which packs its constants (MatMul, Conv, ...), if only moved: without
optimizations it would not be one.

Exact: each form is computed here as well, and compared bit by bit. Elements are only moved, or added as
IEEE 754 says. By default ONNX Runtime folds the nodes when it loads the model, so that nothing of them
runs; with optimizations off they do. For float16 it is proved that the runtime rounds what the constant is
used with alike, and nothing is made of constants so small that the runtime shares them: then it may take
two nodes for one. Sums of float16 it would not fold.
Source: the operators' definitions; what ONNX Runtime 1.32 folds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from pydantic import Field

from hubpublish.model import FreshNames, Scope, leftovers, node_label, scopes
from hubpublish.model.constants import constant_tensor_of, is_onnx
from hubpublish.model.external import let_go
from hubpublish.model.statistics import op_name
from hubpublish.passes.alike import MOST_SHARED
from hubpublish.passes.base import PassOptions, PassOutcome, Rewritten, Skipped
from hubpublish.passes.compression.forms import Finder, Form, Plain, same_bits, value_of
from hubpublish.passes.compression.nodes import FormMaker
from hubpublish.passes.folding.halves import Halves
from hubpublish.passes.folding.operators import FLOATS, INTEGERS
from hubpublish.passes.half.search import may_have_halves
from hubpublish.passes.merging import Merging
from hubpublish.passes.packing import Packing
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.storing import Store
from hubpublish.passes.tidy import INITIALIZER, TidyPass
from hubpublish.passes.validity import why_not_certain

OLDEST_OPSET = 8  # before, there is no Expand
LABEL_BYTES = 100  # of a node or tensor in a file, without the five times that its label is named


class CompressConstantsOptions(PassOptions):
    """Which constants are worth a few nodes."""

    min_bytes: int = Field(default=65_536, ge=1024, description="Leave constants of fewer bytes as they are.")
    min_gain: float = Field(default=0.5, gt=0, lt=1, description="The part of the bytes that must be saved.")


class CompressConstants(TidyPass[CompressConstantsOptions]):
    """Makes large constants from small ones, with nodes that the runtime folds."""

    name = "compress_constants"
    exact = True
    shrinks = True
    summary = "Constants of {min_bytes} bytes or more that consist of smaller ones are computed from these"
    Options = CompressConstantsOptions

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        names, packing = FreshNames(model), Packing(model)
        self._least_elements = MOST_SHARED + 1 if may_have_halves(model) else 1
        halves = Halves(model, Proofs(model), _is_constant)
        found: list[tuple[ir.Value, Scope, Form]] = []
        for scope in scopes(model):
            for value in _constants(scope):
                form = self._form(value) if value.uses() and not packing.by(value) else None
                if form is not None:
                    found.append((value, scope, form))
        merging = Merging({value: _digest(value) for value, _, _ in found}, _is_constant)
        merged = {value for value, _, _ in found if merging.changes(value)}
        for value, scope, form in found:
            if self.is_done(outcome):
                return
            what = _described(value, scope)
            reason = self._why_not(value, scope, halves, model)
            if value in merged:
                reason = reason or "the runtime would make one of it and its copies, and of what takes them"
            if reason:
                outcome.skipped.append(Skipped(**what, reason=reason))
                continue
            made = _replace(value, form, names, scope, model)
            outcome.modified = True
            outcome.rewritten.append(Rewritten(**what, into=made))

    def _form(self, value: ir.Value) -> Form | None:
        """A smaller form of a constant; None if it has none or is small."""
        tensor = constant_tensor_of(value)
        if tensor is None or tensor.nbytes < self.options.min_bytes or tensor.dtype not in INTEGERS | FLOATS:
            return None
        node_bytes = LABEL_BYTES + 5 * len((value.name or "").encode())
        options = self.options
        form = _found(Finder(options.min_bytes, options.min_gain, node_bytes, self._least_elements), tensor)
        if form is None:
            let_go(tensor)
        return form

    def _why_not(self, value: ir.Value, scope: Scope, halves: Halves, model: ir.Model) -> str | None:
        probe = ir.Node("", "Constant", [], [ir.AttrTensor("value", ir.Tensor(np.zeros(0)))])
        if reason := why_not_certain(probe, scope, model):
            return reason
        if scope.opset is None or scope.opset < OLDEST_OPSET:
            return f"opset {scope.opset} has no Expand"
        if self.is_kept(value):
            return "is an output of its graph, or named by a quantization annotation"
        if not halves.allow(value):
            return "what it is given to may be rounded differently without a constant"
        return None


def _is_constant(value: ir.Value) -> bool:
    return constant_tensor_of(value) is not None


def _digest(value: ir.Value) -> object:
    """Equal for constants with the same elements, for which the same nodes are made."""
    tensor = constant_tensor_of(value)
    assert tensor is not None
    digest = hashlib.sha256(tensor.tobytes()).digest()
    let_go(tensor)
    return tensor.dtype, tuple(tensor.shape), digest


def _found(finder: Finder, tensor: ir.TensorProtocol) -> Form | None:
    array = tensor.numpy()
    form = finder.find(array)
    return None if isinstance(form, Plain) or not same_bits(value_of(form), array) else form


def _described(value: ir.Value, scope: Scope) -> dict[str, str]:
    """A constant as a report names it."""
    node = value.producer()
    label, op = (node_label(node), op_name(node)) if node else (value.name or "", INITIALIZER)
    return {"node": label, "op": op, "scope": scope.label}


def _constants(scope: Scope) -> Iterator[ir.Value]:
    """Initializers and Constants."""
    yield from scope.graph.initializers.values()
    yield from (node.outputs[0] for node in scope.graph if is_onnx(node, "Constant") and node.outputs)


def _replace(value: ir.Value, form: Form, names: FreshNames, scope: Scope, model: ir.Model) -> dict[str, int]:
    """Put the nodes of a form in a constant's place; returns how many of each type."""
    producer, name = value.producer(), value.name
    assert name
    maker = FormMaker(name, names, Store(model), scope, producer or scope.graph[0])
    new = maker.make(form, name)
    new.meta.update(value.meta)
    found = scope.graph.meta.get(leftovers.KEY)
    if producer is not None or (found is not None and name in found.declared):
        new.type, new.shape = value.type, value.shape
    value.replace_all_uses_with(new)
    if producer is None:
        del scope.graph.initializers[name]
    else:
        scope.graph.remove(producer, safe=True)
    return dict(sorted(maker.made.items()))
