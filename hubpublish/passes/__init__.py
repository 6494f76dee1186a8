"""The passes, by the name a recipe calls them. To add one: write its file, add a line here, add its tests."""

from __future__ import annotations

from typing import Any, Final

from hubpublish.passes.base import PassOptions, PassOutcome, RewritePass, Rewritten, Skipped
from hubpublish.passes.compress_constants import CompressConstants
from hubpublish.passes.concat_tree import ConcatTree
from hubpublish.passes.dedupe_initializers import DedupeInitializers
from hubpublish.passes.drop_empty_scatter import DropEmptyScatter
from hubpublish.passes.fold_constants import FoldConstants
from hubpublish.passes.gather_nd_to_gather import GatherNdToGather
from hubpublish.passes.int32_indices import Int32Indices
from hubpublish.passes.lift_constants import LiftConstants
from hubpublish.passes.patch_grid import PatchGrid
from hubpublish.passes.remove_unused import RemoveUnused
from hubpublish.passes.sort_topologically import SortTopologically
from hubpublish.passes.split_tree import SplitTree
from hubpublish.passes.static_shape import StaticShape
from hubpublish.passes.sum_to_add import SumToAdd

PASSES: Final[dict[str, type[RewritePass[Any]]]] = {
    each.name: each
    for each in (
        *(DropEmptyScatter, PatchGrid, ConcatTree, SplitTree, SumToAdd, Int32Indices, GatherNdToGather),
        *(FoldConstants, CompressConstants, StaticShape),
        *(RemoveUnused, DedupeInitializers, SortTopologically, LiftConstants),
    )
}

__all__ = ["PASSES", "PassOptions", "PassOutcome", "RewritePass", "Rewritten", "Skipped"]
