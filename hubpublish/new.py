"""A first recipe for a repo on the Hub, from what its listing and its card say.

Nothing is downloaded but small ``.onnx`` files outside LFS, whose SHA-256 the Hub does not know.
What cannot be known stays open: the recipe says so where it belongs, and `Draft.open` lists it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCardData
from huggingface_hub.hf_api import ModelInfo, RepoSibling
from pydantic import TypeAdapter, ValidationError

from hubpublish.errors import RecipeError, SourceError, UsageError
from hubpublish.hub import retried, translated
from hubpublish.recipe import Recipe, loads
from hubpublish.recipe.types import License, Line, ModelPath, PipelineTag, RepoId, TargetRepo
from hubpublish.recipe.writer import plain, to_yaml
from hubpublish.transformers_js import SUFFIX_OF_DTYPE

SUFFIXES = {suffix.removeprefix("_"): dtype for dtype, suffix in SUFFIX_OF_DTYPE.items() if suffix}
"""Suffix of a file name, behind a ``_``, to precision; without one it is fp32."""

COPIED = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files at a repo's root that Transformers.js and its relatives read beside the model."""

_INLINE = {"create": "true creates the repo if it does not exist"}  # comments on keys of the target
_PRECISION = re.compile(r"(?:^|[_.-])(q?u?int\d+|q\d\w*|fp\d+|bf16|o\d|quant\w*)(?=[_.-]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Draft:
    """A recipe's text, and what its author still has to decide, a sentence each."""

    text: str
    open: tuple[str, ...]


@dataclass
class _Findings:
    """What goes into the recipe, and what is said about it."""

    open: list[str] = field(default_factory=list)
    inline: dict[str, str] = field(default_factory=dict)


def draft(api: HfApi, source: str, target: str | None = None) -> Draft:
    """A first recipe for a repo: all its ONNX variants, pinned, with the exact passes that each needs.

    Args:
        api: The Hub to ask.
        source: Id of the repo with the models, owner/name.
        target: Id of the repo to publish to; it may hold ``${VARIABLES}``. By default
            ``${HUBPUBLISH_NAMESPACE}/<name>-webgpu``.

    Raises:
        UsageError: An id is none, or both are the same.
        SourceError: No such repo, no access, no network, or no ONNX model at its root or in ``onnx/``.
    """
    _check_ids(source, target)
    with translated(SourceError, "list the files", repo=source):
        info = retried(lambda: api.model_info(source, files_metadata=True))
    listing = {each.rfilename: each for each in info.siblings or ()}
    found = _Findings()
    data = {
        "schema": 1,
        "source": {"repo": source, "revision": "main", "copy": [name for name in COPIED if name in listing]},
        "variants": _variants(api, info, listing, found),
        "passes": "auto",
        "device": "webgpu-min",
        "verify": {"gate": "exact"},
        "target": {"repo": target or _default_target(source)},
        "card": _card(source, info, found),
    }
    if "config.json" not in listing:
        found.open.append(
            "the source has no config.json, without which Transformers.js does not load a model; the card's "
            "example is then one for ONNX Runtime Web"
        )
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise RecipeError(
            f"no recipe can be made for {source}: {error.errors()[0]['msg']}",
            hint="write one by hand, after another recipe",
        ) from None
    text = _text(recipe, info, found)
    loads(text, "the new recipe")
    return Draft(text, tuple(map(_printable, found.open)))


def _check_ids(source: str, target: str | None) -> None:
    for value, kind, what in ((source, RepoId, "SOURCE"), (target, TargetRepo, "--target")):
        try:
            if value is not None:
                TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            raise UsageError(f"{what}: {error.errors()[0]['msg']}", hint="name a repo, owner/name") from None
    if target is not None and target.lower() == source.lower():
        raise UsageError(f"the target is the source, {source}", hint="publish to a repo of its own")


def _default_target(source: str) -> str:
    name = re.sub(r"[-_.]onnx$", "", source.rpartition("/")[2], flags=re.IGNORECASE)
    return f"${{HUBPUBLISH_NAMESPACE}}/{name}-webgpu"


def _variants(
    api: HfApi, info: ModelInfo, listing: Mapping[str, RepoSibling], found: _Findings
) -> list[dict[str, Any]]:
    models = [path for path in listing if _is(ModelPath, path) and path.rpartition("/")[0] in ("", "onnx")]
    if not models:
        elsewhere = sorted(path for path in listing if path.endswith(".onnx"))
        seen = f"; there are {', '.join(elsewhere[:3])}" if elsewhere else ""
        raise SourceError(
            f"{info.id} has no ONNX model at its root or in onnx/{seen}",
            where=info.id,
            hint="name a repo with ONNX files, or write the recipe by hand",
            kind="file_not_found",
        )
    variants: list[dict[str, Any]] = []
    # The plain one first, as people list them: model.onnx before model_fp16.onnx.
    for path in sorted(models, key=lambda path: (path.rpartition("/")[0], path.removesuffix(".onnx"))):
        dtype, certain = _dtype(path)
        if not certain:
            found.open.append(f"the precision of {path} is taken from its name: {dtype}")
        data = [each for each in listing if _is_data_of(each, path)]
        variants.append(
            {
                "path": path,
                "dtype": dtype,
                "sha256": _pin(api, info, listing[path]),
                "data": [{"path": each, "sha256": _pin(api, info, listing[each])} for each in sorted(data)],
            }
        )
    taken = {each["path"] for variant in variants for each in variant["data"]}
    stray = [path for path in listing if ".onnx" in path and "data" in Path(path).name and path not in taken]
    if stray:
        found.open.append(f"it is not known which model these belong to: {', '.join(sorted(stray))}")
    return variants


def _dtype(path: str) -> tuple[str, bool]:
    """The precision that a file name tells, and whether the name follows the convention."""
    stem = Path(path).stem
    if (suffix := stem.rpartition("_")[2]) in SUFFIXES and suffix != stem:
        return SUFFIXES[suffix], True
    if other := _PRECISION.search(stem):
        return other[1], False
    return "fp32", True


def _is_data_of(path: str, model: str) -> bool:
    return re.fullmatch(r"[._]data(?:_\d+)?", path.removeprefix(model)) is not None and path.startswith(model)


def _pin(api: HfApi, info: ModelInfo, file: RepoSibling) -> str:
    if file.lfs is not None:
        return file.lfs.sha256
    with translated(SourceError, f"fetch {file.rfilename}", repo=info.id):
        local = retried(lambda: api.hf_hub_download(info.id, file.rfilename, revision=info.sha))
        with open(local, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()


def _card(source: str, info: ModelInfo, found: _Findings) -> dict[str, Any]:
    said = vars(info.card_data) if isinstance(info.card_data, ModelCardData) else {}
    task = info.pipeline_tag or said.get("pipeline_tag")
    name = source.rpartition("/")[2]
    if not _is(PipelineTag, task):
        task = None
        found.open.append("the source names no task (pipeline_tag)")
    tags = [tag for tag in _listed(said.get("tags")) if _is(Line, tag)]
    bases = [base for base in _listed(said.get("base_model")) if _is(RepoId, base)]
    return {
        "license": _license(said, found),
        "pipeline_tag": task,
        "tags": list(dict.fromkeys([*tags, "webgpu", "onnx"])),
        "base_model": list(dict.fromkeys([*bases, source])),
        "title": f"{re.sub('[-_.]onnx$', '', name, flags=re.IGNORECASE)} for WebGPU",
    }


def _license(said: Mapping[str, Any], found: _Findings) -> str:
    names = [name for name in _listed(said.get("license")) if _is(License, name)]
    if len(names) == 1 and names[0] not in ("other", "unknown"):
        return str(names[0])
    if len(names) > 1:
        text = f"the source's card names several: {', '.join(names)}"
    elif names == ["other"]:
        text = "the source has a license of its own: describe it under credits"
    else:
        text = "the source's card names no license: look it up before you publish"
    found.open.append(text)
    found.inline["license"] = text
    return str(names[0]) if names else "unknown"


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


def _text(recipe: Recipe, info: ModelInfo, found: _Findings) -> str:
    data = plain(recipe)
    commit = f" at commit {info.sha[:12]}" if info.sha else ""
    head = [
        "yaml-language-server: $schema=../schema/recipe.schema.json",
        "",
        f"{recipe.source.repo} for WebGPU, as it was on the Hub{commit}.",
        "Look through it, then try it out, which publishes nothing: hubpublish run FILE --dry-run",
    ]
    if found.open:
        head += ["", "Still open:", *(f"- {each}" for each in found.open)]
    about = {
        "variants": ["The files to publish; take out those that nobody needs. A SHA-256 pins each."],
        "passes": [
            "auto: the exact rewrites that each file needs for the device. Or a list of them, in order, with",
            "options: [patch_grid, split_tree: {max_outputs: 5}]; `hubpublish passes` explains them.",
        ],
        "device": ["What every node must fit, or nothing is published; `hubpublish devices` lists them."],
        "verify": [
            "Inputs beyond float tensors of a fixed shape need a word here, by the input's name:",
            "shapes: {pixels: [1, 3, 512, 512]}, values: {sr: 16000}, ranges: {input_ids: [0, 999]}",
        ],
        "target": ["Where to publish: set the variable to your user or organization, or write the name."],
    }
    parts = [_comment(head)]
    for key, value in data.items():
        lines = to_yaml({key: value}).splitlines()
        inline = found.inline if key == "card" else _INLINE if key == "target" else {}
        parts.append(_comment(about.get(key, [])) + "\n".join(_annotated(lines, inline)) + "\n")
    missing = ["summary: what the model does, in a sentence or two", "credits: who made it, with links"]
    if recipe.card.pipeline_tag is None:
        missing.insert(0, "pipeline_tag: the task, such as image-segmentation")
    return "\n".join(parts) + "".join(f"  # {each}\n" for each in missing)


def _annotated(lines: Iterable[str], inline: Mapping[str, str]) -> Iterable[str]:
    for line in lines:
        key = line.strip().partition(":")[0]
        yield f"{line}  # {inline[key]}" if key in inline else line


def _comment(lines: Iterable[str]) -> str:
    return "".join(f"# {_printable(line)}".rstrip() + "\n" for line in lines)


def _printable(text: str) -> str:
    # A name from the Hub must not end a comment and become a part of the recipe.
    return "".join(each if each.isprintable() else "?" for each in text)
