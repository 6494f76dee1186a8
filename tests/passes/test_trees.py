from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubpublish.passes.trees import Tree, grouped, leaves
from tests.models.build import levels_needed


def depth(tree: Tree) -> int:
    return 0 if isinstance(tree, int) else 1 + max(depth(child) for child in tree)


def widths(tree: Tree) -> list[int]:
    return [] if isinstance(tree, int) else [len(tree), *(each for child in tree for each in widths(child))]


@pytest.mark.parametrize(
    ("count", "width", "tree"),
    [
        (1, 6, (0,)),
        (3, 6, (0, 1, 2)),
        (7, 6, ((0, 1, 2, 3, 4, 5), 6)),
        (5, 2, (((0, 1), (2, 3)), 4)),
    ],
)
def test_examples(count: int, width: int, tree: Tree) -> None:
    assert grouped(count, width) == tree


@given(st.integers(1, 3000), st.integers(2, 40))
def test_trees_are_narrow_shallow_and_in_order(count: int, width: int) -> None:
    tree = grouped(count, width)
    assert leaves(tree) == list(range(count))
    assert max(widths(tree)) <= width
    assert depth(tree) == max(1, levels_needed(count, width))
    assert count == 1 or min(widths(tree)) > 1
