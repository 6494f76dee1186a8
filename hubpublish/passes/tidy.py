"""What the passes share that look at a model as a whole: at its constants, and at what nothing needs.

None of them runs where no pass is named. ``auto`` takes those of them that make any file smaller; the others,
which only tidy, run where they are named.
"""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar

import onnx_ir as ir

from hubpublish.model import FreshNames, Scope, node_label, scopes
from hubpublish.model.dead import annotation_names
from hubpublish.model.scopes import ambiguous_name
from hubpublish.model.statistics import op_name
from hubpublish.passes.base import (
    PassOptions,
    PassOutcome,
    Replacement,
    RewritePass,
    Rewritten,
    Skip,
    Skipped,
)

INITIALIZER = "initializer"  # stands where a report has the op type of a node

OptionsT = TypeVar("OptionsT", bound=PassOptions)


class TidyPass(RewritePass[OptionsT]):
    """A pass that looks at the model as a whole, once its nodes are sorted."""

    by_default: ClassVar[bool] = False
    op_types: ClassVar[frozenset[str]] = frozenset()

    @abc.abstractmethod
    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        """Change the model, up to the limit, and note each change."""

    def call(self, model: ir.Model) -> PassOutcome:
        outcome = self.sort(model)
        self._annotating = {name for scope in scopes(model) for name in annotation_names(scope.graph)}
        if ambiguous := ambiguous_name(model):
            reason = f"{ambiguous!r} names values of a body and of a scope around it"
            outcome.skipped.append(Skipped(node="main", op="graph", scope="main", reason=reason))
        else:
            self.tidy(model, outcome)
        return outcome

    def concerns(self, node: ir.Node) -> bool:
        return False

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        return Skip("is not looked at alone")

    def is_kept(self, value: ir.Value) -> bool:
        """Whether a graph gives the value, or a quantization annotation names it."""
        return value.is_graph_output() or value.name in self._annotating

    def is_done(self, outcome: PassOutcome) -> bool:
        """Whether the limit allows no more changes."""
        return self.limit is not None and len(outcome.rewritten) >= self.limit


def note_node(outcome: PassOutcome, node: ir.Node, scope: Scope) -> None:
    """Note that a node is gone."""
    outcome.modified = True
    outcome.rewritten.append(Rewritten(node=node_label(node), op=op_name(node), scope=scope.label, into={}))


def note_initializer(outcome: PassOutcome, value: ir.Value, scope: Scope) -> None:
    """Note that an initializer is gone."""
    outcome.modified = True
    outcome.rewritten.append(Rewritten(node=value.name or "", op=INITIALIZER, scope=scope.label, into={}))
