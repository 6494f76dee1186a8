"""What a scheduled run costs when nothing has changed: time besides Python's start, requests, commits.

    python bench/nothing_to_do.py [--runs 100]

Publishes a small model to a Hub on this machine, then runs the same recipe again and again, each time
as a process of its own. Python's own start is measured in turn with the runs and taken off. Seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
import yaml
from huggingface_hub import HfApi

from hubpublish.hub import connect
from hubpublish.localhub import LocalHub
from hubpublish.model import sha256_of

MODEL = """<ir_version: 8, opset_import: ["": 13]>
small (float[2,18] x) => (float[2,18] y)
{ z = Sum (x, x, x) y = Sigmoid (z) }"""
CARD = b"---\nlicense: mit\n---\n# Small\n"


def recipe(folder: Path, api: HfApi) -> Path:
    """A source on the Hub, and a recipe for it."""
    model = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    api.create_repo("acme/small")
    for path, content in {"README.md": CARD, "onnx/model.onnx": model.read_bytes()}.items():
        api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id="acme/small")
    data = {
        "schema": 1,
        "source": {"repo": "acme/small"},
        "variants": [{"path": "onnx/model.onnx", "dtype": "fp32", "sha256": sha256_of(model)}],
        "passes": ["sum_to_add"],
        "target": {"repo": "acme/small-webgpu", "create": True},
        "card": {"license": "mit"},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def seconds(command: list[str], environment: dict[str, str], folder: Path) -> float:
    """How long a process takes, from its start to its end."""
    started = time.perf_counter()
    subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, timeout=120)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name, LocalHub(Path(name) / "hub") as hub:
        folder = Path(name)
        api = connect(hub.endpoint, "hf_alice_write")
        command = [sys.executable, "-m", "hubpublish", "run", str(recipe(folder, api))]
        environment = {
            **os.environ,
            "HF_ENDPOINT": hub.endpoint,
            "HF_TOKEN": "hf_alice_write",
            "HF_HUB_DISABLE_XET": "1",
            "HUBPUBLISH_CACHE": str(folder / "cache"),
        }
        print(f"first run: {seconds(command, environment, folder):.2f} s")
        hub.log.clear()
        starts, spent = [], []
        for _ in range(runs):
            starts.append(seconds([sys.executable, "-c", "pass"], environment, folder))
            spent.append(seconds(command, environment, folder) - starts[-1])
        writes = [entry for entry in hub.log if entry.method not in ("GET", "HEAD")]
        commits = len(api.list_repo_commits("acme/small-webgpu"))
        print(f"{runs} more: median {statistics.median(spent):.2f} s, longest {max(spent):.2f} s, each")
        print(f"besides Python's start of {statistics.median(starts):.2f} s;")
        print(f"{len(hub.log) / runs:.1f} requests a run, {len(writes)} of them writes;")
        print(f"{commits} commits in the target, the first is the Hub's own")


if __name__ == "__main__":
    main()
