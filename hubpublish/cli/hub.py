"""Commands around the Hub on this machine: hub, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubpublish.cli.options import examples

app = typer.Typer()


@app.command(
    epilog=examples(
        "hubpublish hub --port 8080",
        "export HF_ENDPOINT=http://127.0.0.1:8080 HF_TOKEN=hf_alice_write HF_HUB_DISABLE_XET=1",
        "hf upload alice/my-model folder-with-onnx-files .",
        "hubpublish new alice/my-model > recipe.yaml",
    )
)
def hub(
    root: Annotated[Path, typer.Option(help="Folder with the repos; made if missing.")] = Path("out/hub"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """Serve a Hub on this machine, until interrupted.

    It speaks enough of the Hub's API for an unmodified huggingface_hub client to create, read, commit,
    open pull requests and tag; not for its Xet uploads, hence HF_HUB_DISABLE_XET. It listens on
    127.0.0.1 only and is empty at first. Its tokens are hf_alice_write and hf_alice_read, of a member
    of the organization acme, and hf_bob_write.
    """
    from hubpublish.localhub import serve

    serve(root, port)


@app.command(epilog=examples("hubpublish demo", "hubpublish demo --out /tmp/demo"))
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demo leaves; made anew.")] = Path("demo"),
    recipe: Annotated[Path, typer.Option(help="The recipe to run.")] = Path("configs/birefnet_lite.yaml"),
) -> None:
    """Run a recipe on a Hub on this machine, for real.

    Seeds a local Hub with a small model of BiRefNet's structure and random weights, runs the recipe
    against it for real, and leaves the published repo as a plain folder. Run it in a checkout, where
    the recipe is.
    """
    from hubpublish.cli.output import emit, note
    from hubpublish.demo.run import run_demo

    for line in run_demo(out, recipe, note):
        emit(line)
