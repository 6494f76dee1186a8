"""Random models through random lists of passes: same bits, nothing left for a second time, same bytes."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from hubpublish.passes import PASSES
from tests.models.build import Failure, Feeds, Level, bits, random_values, rewrite, run

from .lowest import NOT_EXACT_OPTIMIZED, lowest
from .random_graphs import DTYPES, FORMS, INDICES, SHAPE, Pick, model_of, random_graph

IN_THIS_PROCESS = sorted(set(PASSES) - {"fold_constants"})  # which starts another one for each model
SOME_ORDER = sorted(IN_THIS_PROCESS, key=list(PASSES).index)
LEVELS: tuple[Level, ...] = ("disabled", "default")
ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from tests.conformance.test_random_graphs import digests
print(*digests(int(sys.argv[1])), sep="\\n")
"""


def feeds_of(model: onnx.ModelProto, dtype: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, Any] = {name: rng.integers(-3, 9, (1, 1, 5, 1)) for name in INDICES}
    feeds |= {"x": random_values(rng, DTYPES[dtype], SHAPE), "condition": np.array(True)}
    return {value.name: feeds[value.name] for value in model.graph.input}


def any_model(pick: Pick, *dtypes: int) -> tuple[onnx.ModelProto, int]:
    dtype = pick(dtypes or tuple(DTYPES))
    opset = pick((*range(8, 23), 13, 17, 17, 18))
    graph = random_graph(pick, dtype, opset)
    return model_of(graph, pick(("main", *FORMS))), dtype


def shuffled(model: onnx.ModelProto, order: random.Random) -> onnx.ModelProto:
    nodes = list(model.graph.node)
    order.shuffle(nodes)
    return copy_with(model, nodes)


def copy_with(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def difference(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Feeds, level: Level) -> str | None:
    one, other = run(before, feeds, level), run(after, feeds, level)
    if isinstance(one, Failure) or isinstance(other, Failure):
        both = isinstance(one, Failure) and isinstance(other, Failure)
        return None if both else f"one fails: {one if isinstance(one, Failure) else other}"
    return None if [bits(each) for each in one] == [bits(each) for each in other] else f"other bits ({level})"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_same_bits(data: st.DataObject) -> None:
    """And each pass finds nothing more to do right after itself."""
    pick: Pick = lambda several: data.draw(st.sampled_from(several))  # noqa: E731
    model, dtype = any_model(pick)
    names = data.draw(st.lists(st.sampled_from(IN_THIS_PROCESS), min_size=1, max_size=8))
    result = rewrite(model, *(lowest(name) for name in names))
    did = {outcome.name for outcome in result.outcomes if outcome.rewritten}
    feeds = feeds_of(model, dtype, data.draw(st.integers(0, 9)))
    levels: list[Level] = ["disabled"] if did & NOT_EXACT_OPTIMIZED else ["disabled", "default"]
    for level in levels:
        assert not (reason := difference(model, result.model, feeds, level)), reason
    assert all(outcome.modified or not outcome.rewritten for outcome in result.outcomes)
    last = names[-1]
    again = rewrite(result.model, lowest(last))
    assert again.model.SerializeToString() == result.model.SerializeToString()
    assert not again.rewritten
    twin = rewrite(model, *(lowest(name) for name in names))
    assert twin.model.SerializeToString() == result.model.SerializeToString()


def test_folded_constants() -> None:
    for model, dtype in models(12):
        result = rewrite(model, *(lowest(name) for name in PASSES if name != "sum_to_add"))
        feeds = feeds_of(model, dtype, 0)
        for level in LEVELS:
            assert not (reason := difference(model, result.model, feeds, level)), reason


def test_in_any_order_of_nodes() -> None:
    """Not of float16, which the runtime rounds by the order of nodes: see `passes.sort_topologically`."""
    order = random.Random(0)
    for model, dtype in models(60, *(each for each in DTYPES if each != TensorProto.FLOAT16)):
        mixed = shuffled(model, order)
        names = [name for name in IN_THIS_PROCESS if name != "sum_to_add"]
        result = rewrite(mixed, *(lowest(name) for name in names))
        for level in LEVELS:
            assert not (reason := difference(model, result.model, feeds_of(model, dtype, 0), level)), reason


def test_float16_with_casts_behind_all_other_nodes() -> None:
    """As converters to float16 append them."""
    unsorted = 0
    for seed in range(80):
        model = model_of(random_graph(random.Random(seed).choice, TensorProto.FLOAT16, 17), "main")
        feeds = feeds_of(model, TensorProto.FLOAT16, 0)
        late = copy_with(model, sorted(model.graph.node, key=lambda node: node.op_type == "Cast"))
        unsorted += rewrite(late, lowest("sort_topologically")).outcomes[0].modified
        for names in (["sort_topologically"], [name for name in SOME_ORDER if name != "sum_to_add"]):
            result = rewrite(late, *(lowest(name) for name in names))
            for level in LEVELS:
                assert not (reason := difference(late, result.model, feeds, level)), reason
    assert unsorted >= 5


def test_the_models_run_and_every_pass_rewrites_some() -> None:
    """What the other tests draw is no heap of models that fail, or that have nothing to rewrite."""
    counts: Counter[str] = Counter()
    for model, dtype in models(250):
        counts["runs"] += not isinstance(run(model, feeds_of(model, dtype, 0)), Failure)
        counts[f"dtype {dtype}"] += 1
        result = rewrite(model, *(lowest(name) for name in SOME_ORDER))
        counts.update(outcome.name for outcome in result.outcomes if outcome.rewritten)
    assert counts["runs"] >= 225
    assert min(counts[f"dtype {dtype}"] for dtype in DTYPES) >= 20
    often = (
        "concat_tree",
        "split_tree",
        "sum_to_add",
        "gather_nd_to_gather",
        "patch_grid",
        "drop_empty_scatter",
    )
    assert {name: counts[name] for name in often if counts[name] < 10} == {}


def models(count: int, *dtypes: int) -> Iterator[tuple[onnx.ModelProto, int]]:
    """The same ones each time, in each process."""
    for seed in range(count):
        yield any_model(random.Random(seed).choice, *dtypes)


def digests(count: int) -> list[str]:
    """Of what the models are after all passes, and of what is said of it."""
    found = []
    for model, _ in models(count):
        result = rewrite(model, *(lowest(name) for name in IN_THIS_PROCESS))
        said = repr([(outcome.rewritten, outcome.skipped) for outcome in result.outcomes])
        found.append(hashlib.sha256(result.model.SerializeToString() + said.encode()).hexdigest())
    return found


def test_the_same_bytes_in_every_process() -> None:
    seen = []
    for seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", SCRIPT, "60"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        seen.append(done.stdout.split())
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 40
