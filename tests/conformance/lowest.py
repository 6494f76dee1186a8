"""Every pass with its limits where it rewrites the most, and comparing what comes out."""

from __future__ import annotations

from typing import Any, Final

from hubpublish.passes import PASSES, RewritePass
from hubpublish.passes.compress_constants import CompressConstantsOptions
from hubpublish.passes.concat_tree import ConcatTreeOptions
from hubpublish.passes.fold_constants import FoldConstantsOptions
from hubpublish.passes.lift_constants import LiftConstantsOptions
from hubpublish.passes.patch_grid import PatchGridOptions
from hubpublish.passes.split_tree import SplitTreeOptions

LOWEST: Final = {
    "compress_constants": CompressConstantsOptions(min_bytes=1024, min_gain=0.01),
    "concat_tree": ConcatTreeOptions(max_inputs=2),
    "fold_constants": FoldConstantsOptions(max_bytes=1_000_000),
    "lift_constants": LiftConstantsOptions(min_elements=0),
    "patch_grid": PatchGridOptions(min_pieces=2),
    "split_tree": SplitTreeOptions(max_outputs=2),
}

#: Where the passes promise equal bits only without optimizations.
NOT_EXACT_OPTIMIZED: Final = frozenset({"sum_to_add"})


def lowest(name: str) -> RewritePass[Any]:
    """The pass of that name, so that it rewrites all it can."""
    return PASSES[name](LOWEST.get(name))
