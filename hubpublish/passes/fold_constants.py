"""What depends on no input as a constant. Exact.

Removes: the thousands of nodes of shape arithmetic that exporters write, many of int64, which the WebGPU
execution provider leaves to the CPU, and the time that a runtime takes to load them.

    y = f(c1, c2, ...)        ->    an initializer y; where there can be none, a Constant
    n = Shape(x)              ->    the same, if the shape of x is proved

The values are ONNX Runtime's own, of the constant nodes alone, part by part, with optimizations off, in
a process of its own. What is stored is what other nodes need, under its name; what nothing needs then
goes. Rounds, until nothing changes. What takes more than ``max_bytes`` stays, and what would make the file
larger: no file grows, and no single value takes 4 KiB more than what goes for its sake.

Exact, since ONNX Runtime by default folds the same when it loads a model, and for what is left alone:
(a) what is given to MatMul, Conv, BatchNormalization and others that may pack a constant, if only moved
or cast; and an Identity of a constant, which keeps a shared weight from being packed. (b) Floats that may
differ between machines: all but what is moved or rounded as IEEE 754 says, and NaN. (c) Float16 of
operators without a kernel for it on the CPU, which the runtime does not fold itself, so that it would see
a constant that it did not. (d) What changes where the runtime rounds to float16: a Cast that loses
something, a Shape or constant beside a node that may run in float32. (e) Values that make two nodes the same,
or no longer the same, since the runtime merges such nodes, and fuses and rounds others by that;
Size, which it does not fold; and Shapes of what it leaves out and is not removed here. (f) Shapes that a
Loop which runs zero times may give. (g) Random numbers, If, Loop and Scan, what a function's caller
configures, operators of other domains.
Bodies and functions are folded where they use nothing but constants, of the graphs around them too.

Not built on onnxscript 0.7: its ``fold_constants`` leaves 13,000 of the 16,400 nodes of BiRefNet at 256 and
201 of 423 Shapes, makes the file larger and drops the Identities, so that float32 differs with
optimizations off; for values of up to 64 KiB, float16 differs by 0.09 by default. Its ``optimize`` drops
them too, and takes five minutes. onnx_ir has no folding. ONNX Runtime's optimized models turn float16
into float32.
Source: what these were seen to do; onnxruntime's constant_folding.cc and insert_cast_transformer.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from pydantic import Field

from hubpublish.model import Scope, node_label
from hubpublish.model.dead import remove_dead
from hubpublish.model.rewire import replace_uses
from hubpublish.model.statistics import op_name
from hubpublish.passes.alike import shared
from hubpublish.passes.base import PassOptions, PassOutcome, Rewritten, Skipped
from hubpublish.passes.folding.cones import Cones, find_cones
from hubpublish.passes.folding.measured import STUCK, Measured
from hubpublish.passes.folding.plan import Plan, Planner
from hubpublish.passes.folding.values import compute
from hubpublish.passes.folding.wanted import Wanted
from hubpublish.passes.merging import Merging
from hubpublish.passes.proofs.certain import Array
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.storing import Store
from hubpublish.passes.tidy import INITIALIZER, TidyPass

MERGED = "the runtime would merge others than now of the nodes that are given it, and round differently"


class FoldConstantsOptions(PassOptions):
    """How large a constant may become."""

    max_bytes: int = Field(default=65_536, ge=0, description="Leave values that take more bytes as they are.")


class FoldConstants(TidyPass[FoldConstantsOptions]):
    """Computes nodes that depend on no input, and stores what other nodes need of them."""

    name = "fold_constants"
    exact = True
    shrinks = True
    summary = "What depends on no input is stored as a constant, up to {max_bytes} bytes each"
    Options = FoldConstantsOptions

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        refused: dict[ir.Node, str] = {}
        while not self._fold(model, refused, outcome):
            outcome.skipped.clear()  # what is stored now may make further shapes certain

    def _fold(self, model: ir.Model, refused: dict[ir.Node, str], outcome: PassOutcome) -> bool:
        """Store what can be, and return whether nothing is left for another round."""
        proofs = Proofs(model)
        cones = find_cones(model, proofs, refused)
        reasons = Wanted(model, cones, proofs, self.options.max_bytes, self.is_kept).why_not()
        wanted = {
            value for node in cones.nodes if node not in reasons for value in node.outputs if value.name
        }
        values = compute(cones, wanted)
        refused.update(values.refused)
        reasons |= values.refused
        planner = Planner(cones, values.computed, Store(model), self.is_kept)
        plan = planner.plan(reasons)
        while merged := _merged(plan, values.arrays, cones):
            # What they are computed from could merge them as well.
            reasons |= dict.fromkeys(cones.behind(merged), MERGED)
            plan = planner.plan(reasons)
        measured = Measured(model, proofs, plan.gone)
        if stuck := measured.stuck():
            refused.update(dict.fromkeys(stuck, STUCK))
            return False
        constants: dict[ir.Value, ir.Value] = {}
        for node in plan.stored:
            if not self.is_done(outcome):
                constants |= _stored(node, cones.scopes[node], values.arrays, outcome)
        replace_uses(constants)  # all at once: many of them may be given to one node
        remove_dead(plan.gone)
        measured.remove()
        for node, reason in (cones.refused | plan.stay).items():
            if reason:
                label, op, scope = node_label(node), op_name(node), cones.scopes[node].label
                outcome.skipped.append(Skipped(node=label, op=op, scope=scope, reason=reason))
        return not plan.stored or self.is_done(outcome)


def _merged(plan: Plan, arrays: Mapping[ir.Value, Array], cones: Cones) -> list[ir.Node]:
    """Nodes that must not be stored, since others would be merged by that."""
    become = {value: shared(arrays[value]) or value for node in plan.stored for value in node.outputs}
    merging = Merging(become, cones.is_constant, plan.gone)
    return [node for node in plan.stored if any(map(merging.changes, node.outputs))]


def _stored(
    node: ir.Node, scope: Scope, arrays: dict[ir.Value, Array], outcome: PassOutcome
) -> dict[ir.Value, ir.Value]:
    """Constants of the same names, for those that use the node."""
    store, constants = Store(outcome.model), {}
    used = [value for value in node.outputs if value.uses()]
    for value in used:
        assert value.name
        constant = store.add(arrays[value], value.name, scope, node, node.name)
        if store.kind(scope) != INITIALIZER:
            constant.type, constant.shape = value.type, value.shape
        constant.meta.update(value.meta)  # onnx_ir keeps quantization annotations here
        constants[value] = constant
    outcome.modified = True
    label, op, into = node_label(node), op_name(node), {store.kind(scope): len(used)}
    outcome.rewritten.append(Rewritten(node=label, op=op, scope=scope.label, into=into))
    return constants
