"""How a recipe has the rewrite proved: the gate, and what both models are run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from hubpublish.recipe.checks import check_range, check_value
from hubpublish.recipe.types import Line, RecipeModel, RelativePath, closest, problem, shown

_Bound = Annotated[float, Field(strict=True, ge=0)]


class Tolerance(RecipeModel):
    """How far apart the outputs may be. Every bound that is given must hold, for every output."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    max_abs: _Bound | None = Field(default=None, description="Largest absolute difference of any element.")
    mean_abs: _Bound | None = Field(default=None, description="Mean absolute difference over the elements.")
    mean_sigmoid: _Bound | None = Field(
        default=None,
        description="Mean absolute difference of the sigmoids: for outputs that are logits of a mask.",
    )

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if self.max_abs is None and self.mean_abs is None and self.mean_sigmoid is None:
            raise problem("a tolerance needs at least one of max_abs, mean_abs, mean_sigmoid")
        return self


GATES = ("exact", "exact_unoptimized")


def _gate_name(value: object) -> object:
    if not isinstance(value, str) or value not in GATES:
        close = closest(str(value), GATES)
        known = f"known: {', '.join(GATES)}, or bounds such as {{max_abs: 1e-3}}"
        hint = f"did you mean '{close}'?" if close else known
        raise problem(f"unknown gate {shown(value)}; {hint}")
    return value


Gate = Annotated[
    Annotated[Literal["exact", "exact_unoptimized"], BeforeValidator(_gate_name), Tag("name")]
    | Annotated[Tolerance, Tag("tolerance")],
    Discriminator(lambda value: "tolerance" if isinstance(value, Mapping | Tolerance) else "name"),
]

_Count = Annotated[int, Field(strict=True, ge=8, lt=2**31)]  # WebGPU grants no fewer
_Dimension = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
_Int64 = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]


class InputSpec(RecipeModel):
    """What original and rewrite are run on."""

    noise: int = Field(
        default=2, strict=True, ge=0, le=64, description="How many inputs of seeded noise to compare on."
    )
    seed: int = Field(default=0, strict=True, ge=0, lt=2**32, description="Where the noise starts from.")
    images: tuple[RelativePath, ...] = Field(
        default=(),
        description="Images to compare on as well, relative to the recipe; they go through the source's "
        "preprocessor_config.json.",
    )
    shapes: dict[Line, tuple[_Dimension, ...]] = Field(
        default_factory=dict,
        description="Shapes of inputs with symbolic dimensions, by the input's name. Without one, a symbolic "
        "first dimension is 1 and any other an error.",
    )
    values: dict[Line, Annotated[Any, AfterValidator(check_value)]] = Field(
        default_factory=dict,
        description="Inputs with a fixed value, by the input's name: a number, a text, true or false, or "
        "nested lists of them. A sample rate, for example.",
    )
    ranges: dict[Line, Annotated[tuple[_Int64, _Int64], BeforeValidator(check_range)]] = Field(
        default_factory=dict,
        description="For integer inputs, by the input's name: [lowest, highest] value of the noise, both "
        "included. Token ids, for example.",
    )


class WebGpuSpec(RecipeModel):
    """What the rewritten model is run on WebGPU for. It takes a device: a software adapter will do."""

    storage_buffers: _Count | None = Field(
        default=8,
        description="The most storage buffers that a shader shall get, if the system can lower what the "
        "device grants. null: what it grants.",
    )
    bounds: Tolerance | None = Field(
        default=None,
        description="How far the outputs may be from the original's on the CPU. Without it that is measured.",
    )
    original: bool = Field(
        default=False, strict=True, description="Run the original too, to see whether it fails there."
    )
    assign_only: bool = Field(
        default=False,
        strict=True,
        description="Only load the model: where its nodes are and what is copied. For models that are too "
        "large to run on a software adapter.",
    )


class VerifySpec(RecipeModel):
    """How the rewrite is proved before anything is published."""

    gate: Gate = Field(
        default="exact",
        description="exact: the same bits with the runtime's optimizations off and at its default level. "
        "exact_unoptimized: the same bits with optimizations off; at the default level no further apart than "
        "the original's own two levels. Or bounds on the difference, for approximate passes.",
    )
    inputs: InputSpec = Field(default=InputSpec(), description="What to run both models on.")
    webgpu: WebGpuSpec | None = Field(
        default=None, description="Run the rewritten model on WebGPU as well; {} does with what is usual."
    )
