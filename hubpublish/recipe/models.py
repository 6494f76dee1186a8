"""A recipe as frozen models: one publication, from the source's files to the card.

The models hold what is true of a recipe wherever it comes from; where it stood in a file is the
reader's knowledge. Descriptions become those of the JSON schema, which editors show.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from hubpublish.devices import PROFILES, Device, read_runtime, runtime_names
from hubpublish.inspection import Auto
from hubpublish.passes import RewritePass
from hubpublish.recipe.checks import findings
from hubpublish.recipe.pass_spec import Passes
from hubpublish.recipe.types import (
    Dtype,
    License,
    Line,
    ModelPath,
    PipelineTag,
    Prose,
    RecipeModel,
    RegionName,
    RelativePath,
    RepoId,
    Revision,
    Sha256,
    TagTemplate,
    TargetRepo,
    nearest,
    problem,
    shown,
)
from hubpublish.recipe.verify_spec import Tolerance, VerifySpec

SCHEMA_VERSIONS = (1,)
"""The versions of the recipe's format that this version reads."""


class CopiedFile(RecipeModel):
    """A file of the source repo that is published unchanged. A bare text is its path."""

    path: RelativePath = Field(description="The file's path in the source repo.")
    sha256: Sha256 | None = Field(default=None, description="Its SHA-256; without it any content is taken.")

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, data: object) -> object:
        return {"path": data} if isinstance(data, str) else data


class Source(RecipeModel):
    """The repo on the Hub that the models come from."""

    repo: RepoId = Field(description="The repo's id on the Hub, owner/name.")
    revision: Revision = Field(
        default="main",
        description="Branch, tag or commit. The commit that it resolved to is recorded in the report.",
    )
    copy_files: tuple[CopiedFile, ...] = Field(
        default=(),
        validation_alias="copy",
        serialization_alias="copy",
        description="Files to publish unchanged, such as config.json. LICENSE and NOTICE are added if there.",
    )


class DataFile(RecipeModel):
    """A file with the external data of a variant."""

    path: RelativePath = Field(description="The file's path in the source repo, as in onnx/model.onnx_data.")
    sha256: Sha256 = Field(description="SHA-256 of the file, 64 hexadecimal digits.")


class Variant(RecipeModel):
    """One ONNX model of the source, published under the same path."""

    path: ModelPath = Field(description="The model's path in the source repo, such as onnx/model.onnx.")
    dtype: Dtype = Field(description="Its precision, as the card names it: fp32, fp16, q8, q4f16, ...")
    sha256: Sha256 = Field(description="SHA-256 of the model file, 64 hexadecimal digits.")
    data: tuple[DataFile, ...] = Field(
        default=(), description="The files with its external data; they are in the model's folder or below."
    )
    passes: Passes | None = Field(
        default=None, description="Passes for this variant in place of the recipe's."
    )
    verify: VerifySpec | None = Field(
        default=None, description="Verification of this variant in place of the recipe's."
    )


def _profile(value: str) -> str:
    if value not in PROFILES:
        raise problem(f"unknown device {shown(value)}; {nearest(value, PROFILES)}")
    return value


def _list_profiles(schema: dict[str, Any]) -> None:
    schema["enum"] = list(PROFILES)


def _runtime(value: str) -> str:
    if value not in runtime_names():
        raise problem(f"unknown runtime {shown(value)}; {nearest(value, runtime_names())}")
    return value


def _list_runtimes(schema: dict[str, Any]) -> None:
    # Typed as text or null; only a text has a list to choose from.
    schema["anyOf"][0]["enum"] = list(runtime_names())


class DeviceSpec(RecipeModel):
    """What the result must fit; if it does not, nothing is published. A bare text is the profile."""

    profile: Annotated[str, AfterValidator(_profile)] = Field(
        default="webgpu-min",
        description="The device profile that every node must fit, if a pass can narrow it at all.",
        json_schema_extra=_list_profiles,
    )
    runtime: Annotated[str, AfterValidator(_runtime)] | None = Field(
        default=None,
        description="What will run the files, such as web-1.30. Without one, of every runtime that "
        "`hubpublish devices` lists the worst counts.",
        json_schema_extra=_list_runtimes,
    )
    enforce_sizes: bool = Field(
        default=False,
        strict=True,
        description="Publish nothing if a tensor is larger than a binding or buffer of the profile, or if "
        "that cannot be told. Otherwise the card says how large they must be.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_profile(cls, data: object) -> object:
        return {"profile": data} if isinstance(data, str) else data

    def build(self) -> Device:
        """The device, with its tables read."""
        runtime = read_runtime(self.runtime) if self.runtime is not None else None
        return Device(PROFILES[self.profile], runtime, self.enforce_sizes)


class Target(RecipeModel):
    """The repo to publish to."""

    repo: TargetRepo = Field(
        description="The repo's id, owner/name. It may hold ${VARIABLES} of the environment, and is the only "
        "place that may."
    )
    create: bool = Field(default=False, strict=True, description="Create the repo if it does not exist.")
    private: bool = Field(default=False, strict=True, description="If it is created, create it private.")
    tag: TagTemplate | None = Field(
        default=None,
        description="A tag for what is published, set when it was read back. {source} and {key} stand for 12 "
        "digits of the source's commit and of what the result is made from. A tag is never moved, so a name "
        "without either serves for one result.",
    )


class CardSpec(RecipeModel):
    """What the model card says beyond what was measured."""

    license: License = Field(description="The license's id on the Hub, such as mit or apache-2.0.")
    license_differs_because: Prose | None = Field(
        default=None, description="Why the license is not the one on the source's card. Only then."
    )
    pipeline_tag: PipelineTag | None = Field(
        default=None, description="The task on the Hub, such as image-segmentation."
    )
    tags: tuple[Line, ...] = Field(default=(), description="Tags on the Hub.")
    base_model: tuple[RepoId, ...] = Field(
        default=(), description="The models that this one comes from, as repo ids."
    )
    title: Line | None = Field(default=None, description="The card's heading.")
    summary: Prose | None = Field(
        default=None, description="What the model does, in a sentence or two of Markdown."
    )
    inputs: Prose | None = Field(default=None, description="What the inputs mean, in Markdown.")
    outputs: Prose | None = Field(default=None, description="What the outputs mean, in Markdown.")
    usage: Prose = Field(
        default="auto",
        description="auto: an example with Transformers.js, or with ONNX Runtime Web where there is no "
        "config.json. Or Markdown of your own.",
    )
    free_text: tuple[RegionName, ...] = Field(
        default=(),
        description="Names of regions of the card in which people may write on the Hub, such as notes: what "
        "they write there stays.",
    )
    credits: Prose | None = Field(default=None, description="Who made the model, in Markdown.")
    citation: Prose | None = Field(default=None, description="How to cite it, such as a BibTeX entry.")


def _at_least_one(variants: tuple[Variant, ...]) -> tuple[Variant, ...]:
    # Not min_length: pydantic counts valid items only, and would report every wrong one twice.
    if not variants:
        raise problem("needs at least one model")
    return variants


class Recipe(RecipeModel):
    """One publication: what to take, what to rewrite, how to prove it, and where to publish it."""

    schema_version: Literal[1] = Field(
        validation_alias="schema",
        serialization_alias="schema",
        description="The version of this file's format: 1.",
    )
    source: Source = Field(description="Where the models come from.")
    variants: Annotated[tuple[Variant, ...], AfterValidator(_at_least_one)] = Field(
        description="The ONNX models to take.", json_schema_extra={"minItems": 1}
    )
    passes: Passes = Field(
        description="The rewrites, in order: each a name, or one name with a mapping of its options. Or "
        "auto: those that `hubpublish inspect` names for the device, and those that make any file smaller; "
        "approximate ones only where the gate of the verification is a tolerance. The published recipe names "
        "those that were chosen."
    )
    device: DeviceSpec = Field(
        default=DeviceSpec(), description="What the result must fit, or nothing is published."
    )
    verify: VerifySpec = Field(default=VerifySpec(), description="How the rewrite is proved.")
    target: Target = Field(description="Where to publish.")
    card: CardSpec = Field(description="What the model card says beyond what was measured.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := findings(self):
            raise PydanticCustomError(
                "recipe_findings", "{text}", {"text": found[0].text, "findings": tuple(found)}
            )
        return self

    @property
    def asks_for_webgpu(self) -> bool:
        """Whether any variant is run on WebGPU."""
        return any((variant.verify or self.verify).webgpu is not None for variant in self.variants)

    def build_passes(self, variant: Variant) -> tuple[RewritePass[Any], ...] | Auto:
        """The passes for a variant, ready to run, or how they are chosen."""
        passes = self.passes if variant.passes is None else variant.passes
        if passes == "auto":
            return Auto(approximate=isinstance((variant.verify or self.verify).gate, Tolerance))
        return tuple(each.build() for each in passes)
