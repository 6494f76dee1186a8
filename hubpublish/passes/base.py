"""What every pass shares: options, the walk over all scopes, the report of what was done and what was not.

A pass says which op types it looks at and, for one node, what to put in its place. The base class
sorts the graphs, visits every scope, leaves operators of other domains alone, replaces the node,
and keeps the names, types, annotations and documentation of its outputs.
"""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from hubpublish.model import FreshNames, Scope, node_label, scopes, sort_topologically
from hubpublish.model.rewire import Rewiring
from hubpublish.model.scopes import ambiguous_name
from hubpublish.model.statistics import op_name
from hubpublish.passes.removes import Removes
from hubpublish.passes.validity import require_supported_opsets, why_not_certain, why_not_onnx


class PassOptions(BaseModel):
    """Options of a pass; one without options uses this class itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Rewritten(BaseModel):
    """A node that a pass replaced: its label, op type and scope, and what stands there now."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    op: str
    scope: str
    into: dict[str, int]


class Skipped(BaseModel):
    """A node that a pass looked at and left alone, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    op: str
    scope: str
    reason: str


@dataclass
class PassOutcome(ir.passes.PassResult):
    """``onnx_ir``'s result plus what was done, node by node, in the order of the graph."""

    name: str
    options: dict[str, object]
    exact: bool
    rewritten: list[Rewritten] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class Skip:
    """The answer of a pass for a node it must leave alone, with the reason."""

    reason: str


@dataclass(frozen=True)
class Replacement:
    """New nodes in execution order, and the values that take the place of the node's outputs."""

    nodes: Sequence[ir.Node]
    outputs: Sequence[ir.Value]


OptionsT = TypeVar("OptionsT", bound=PassOptions)


class RewritePass(ir.passes.InPlacePass, Generic[OptionsT]):
    """A pass that replaces nodes one by one.

    A subclass says what it is by its class attributes; ``summary`` and ``failure`` are sentences of
    the model card.

    Args:
        options: An instance of the pass's ``Options``; its defaults when None.
        limit: Replace only the first so many nodes and leave the rest; None replaces all. With it
            a wrong replacement is found by bisecting.
    """

    name: ClassVar[str]
    exact: ClassVar[bool]
    op_types: ClassVar[frozenset[str]]
    by_default: ClassVar[bool] = True  # whether it runs, if exact, where no pass is named
    narrows: ClassVar[bool] = False  # whether it makes nodes of its op types bind fewer tensors
    shrinks: ClassVar[bool] = False  # whether it makes files smaller, whatever the device
    fixes_shapes: ClassVar[bool] = False  # whether the result takes inputs of one shape only
    removes: ClassVar[tuple[Removes, ...]] = ()  # what `inspect` names it for; none: see `removed_by`
    summary: ClassVar[str]  # what it does, in a clause; may use the names of its options
    failure: ClassVar[str] = ""  # what the runtime does without it; may use {slots} and {limit}
    Options: ClassVar[type[PassOptions]] = PassOptions

    def __init__(self, options: OptionsT | None = None, *, limit: int | None = None) -> None:
        self.options: OptionsT = options if options is not None else self.Options()  # type: ignore[assignment]
        self.limit = limit

    @abc.abstractmethod
    def concerns(self, node: ir.Node) -> bool:
        """Whether the node is one that this pass is for, by op type, arity and attributes alone."""

    @abc.abstractmethod
    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        """What to put in the node's place, or why nothing."""

    def prepare(self, model: ir.Model) -> None:
        """Find out what the pass has to know of the model as a whole, which is sorted by now."""

    def finish(self, model: ir.Model) -> None:
        """Tidy up after the last node was replaced."""

    def __call__(self, model_or_result: ir.Model | ir.passes.PassResult, /) -> PassOutcome:
        model = model_or_result if isinstance(model_or_result, ir.Model) else model_or_result.model
        if self.op_types and self.op_types.isdisjoint(
            node.op_type for scope in scopes(model) for node in scope.graph
        ):
            return self.sort(model)  # most models: without the proofs, which take ten times as long
        outcome = super().__call__(model)
        assert isinstance(outcome, PassOutcome)
        return outcome

    def sort(self, model: ir.Model) -> PassOutcome:
        """Put the nodes in an order in which they can run; the outcome of a pass that does nothing else."""
        require_supported_opsets(model)
        modified = sort_topologically(model)
        return PassOutcome(model, modified, self.name, self.options.model_dump(mode="json"), self.exact)

    def call(self, model: ir.Model) -> PassOutcome:
        outcome = self.sort(model)
        self.prepare(model)
        names = FreshNames(model)
        self._ambiguous = ambiguous_name(model)
        self._rewiring = Rewiring()
        for scope in scopes(model):
            for node in list(scope.graph):
                if node.op_type in self.op_types and self.concerns(node):
                    self._visit(node, scope, names, outcome)
        self._rewiring.finish()
        self.finish(model)
        return outcome

    def _visit(self, node: ir.Node, scope: Scope, names: FreshNames, outcome: PassOutcome) -> None:
        if self.limit is not None and len(outcome.rewritten) >= self.limit:
            return
        reason = why_not_onnx(node, outcome.model) or why_not_certain(node, scope, outcome.model)
        if self._ambiguous and not reason:
            reason = (
                f"{self._ambiguous!r} names values of a body and of a scope around it, which is not valid"
            )
        answer = Skip(reason) if reason else self.replace(node, scope, names)
        label, op = node_label(node), op_name(node)
        if isinstance(answer, Skip):
            outcome.skipped.append(Skipped(node=label, op=op, scope=scope.label, reason=answer.reason))
            return
        into = dict(sorted(Counter(new.op_type for new in answer.nodes).items()))
        outcome.rewritten.append(Rewritten(node=label, op=op, scope=scope.label, into=into))
        outcome.modified = True
        substitute(node, answer, self._rewiring)


def substitute(node: ir.Node, replacement: Replacement, rewiring: Rewiring) -> None:
    """Put the replacement where ``node`` is; its outputs keep everything that was said about them."""
    assert node.graph is not None
    for old, new in zip(node.outputs, replacement.outputs, strict=True):
        new.doc_string = old.doc_string
        new.metadata_props.update(old.metadata_props)
        new.meta.update(old.meta)  # onnx_ir keeps quantization annotations here
        new.type, new.shape = old.type or new.type, new.shape if old.shape is None else old.shape
        if old.name:  # else an omitted output: the new one is there, so it needs a name
            new.name = old.name
    for new_node in replacement.nodes:
        new_node.metadata_props.update(node.metadata_props)
    replacement.nodes[-1].doc_string = node.doc_string
    rewiring.replace(dict(zip(node.outputs, replacement.outputs, strict=True)))
    # Where the node is, so that the order stays topological.
    node.graph.insert_after(node, replacement.nodes)
    rewiring.remove(node)


class NodeMaker:
    """Makes the nodes of one replacement, with fresh names that begin with the replaced node's."""

    def __init__(self, node: ir.Node, names: FreshNames) -> None:
        self._base = node_label(node)
        self._names = names
        self.nodes: list[ir.Node] = []

    def __call__(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr] = (),
        *,
        outputs: int = 1,
    ) -> tuple[ir.Value, ...]:
        """Append a node of ONNX's domain; returns its outputs."""
        name = self._names.fresh(f"{self._base}/{op_type}")
        values = [ir.Value(name=self._names.fresh(f"{self._base}/{op_type}_output")) for _ in range(outputs)]
        node = ir.Node("", op_type, inputs, attributes, outputs=values, name=name)
        self.nodes.append(node)
        return tuple(values)

    def constant(self, values: npt.ArrayLike) -> ir.Value:
        """An int64 Constant of any shape."""
        tensor = ir.Tensor(np.array(values, dtype=np.int64))
        return self("Constant", [], [ir.AttrTensor("value", tensor)])[0]
