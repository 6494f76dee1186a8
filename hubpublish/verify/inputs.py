"""What both models are run on: seeded noise, fixed values, images, with every dimension settled.

The same signature, specification and seed give the same bytes; an input's noise does not depend on
what else the model takes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hubpublish.errors import UnsupportedModelError, UsageError
from hubpublish.verify import images
from hubpublish.verify.asking import to_set
from hubpublish.verify.result import InputSummary, TensorSummary
from hubpublish.verify.shapes import Shapes, check_names
from hubpublish.verify.signature import Signature, TensorInput
from hubpublish.verify.values import as_input

if TYPE_CHECKING:
    from hubpublish.recipe import InputSpec

DEFAULT_RANGE = (0, 1)
"""Of integers without a range: in bounds for any index, mask or token type. Token ids deserve more."""

IMAGE = "image "  # begins the label of a set with an image in it
REDRAWS = 8  # how often noise is drawn again when it equals an input that is there already


@dataclass(frozen=True)
class Tensor:
    """One input's value."""

    input: TensorInput
    array: np.ndarray[Any, Any]

    @cached_property
    def data(self) -> bytes:
        """Its bytes in C order; of strings a JSON list."""
        if self.input.kind == "string":
            return json.dumps([str(item) for item in self.array.ravel()]).encode()
        return self.array.tobytes()

    @cached_property
    def sha256(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def summary(self) -> TensorSummary:
        """The tensor as the report tells it."""
        return TensorSummary(
            name=self.input.name, dtype=self.input.dtype, shape=self.array.shape, sha256=self.sha256
        )


@dataclass(frozen=True)
class InputSet:
    """A value for every input that is fed."""

    label: str
    tensors: tuple[Tensor, ...]

    @property
    def summary(self) -> InputSummary:
        """The set as the report tells it."""
        return InputSummary(label=self.label, tensors=tuple(tensor.summary for tensor in self.tensors))

    @property
    def image(self) -> bool:
        """Whether an image is among them."""
        return self.label.startswith(IMAGE)

    @property
    def digest(self) -> str:
        """SHA-256 over names, types, shapes and bytes, whatever the label."""
        summaries = [tensor.summary.model_dump(mode="json") for tensor in self.tensors]
        return hashlib.sha256(json.dumps(summaries, sort_keys=True).encode()).hexdigest()


class InputMaker:
    """Makes the input sets that a specification asks for.

    Args:
        signature: Of the original model.
        spec: What to run on.
        base_dir: Where the images' paths start.
        preprocessor: The ``preprocessor_config.json`` that images go through.
        given: Arrays to feed, by input; they take the place of values in ``spec``.

    Raises:
        UsageError: An input that the model does not have, a dimension that nothing settles, a value
            or range that does not fit, an image that cannot be read.
        UnsupportedModelError: An input that must be made up and is of a type that cannot be.
    """

    def __init__(
        self,
        signature: Signature,
        spec: InputSpec,
        base_dir: Path,
        preprocessor: Path | None = None,
        given: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> None:
        values = {**spec.values, **(given or {})}
        named = {"shapes": spec.shapes, "values": values, "ranges": spec.ranges}
        for option, mapping in named.items():
            check_names(mapping, signature.inputs, option)
        self.spec = spec
        self.base_dir = base_dir
        self.preprocessor = preprocessor
        self.fed = tuple(
            tensor for tensor in signature.inputs if not tensor.optional or tensor.name in values
        )
        self.fixed = {
            tensor.name: as_input(tensor, values[tensor.name]) for tensor in self.fed if tensor.name in values
        }
        for tensor in self.free:
            _check_makeable(tensor)
            _check_range(tensor, spec.ranges.get(tensor.name))

    @property
    def free(self) -> tuple[TensorInput, ...]:
        """The inputs that no value fixes."""
        return tuple(tensor for tensor in self.fed if tensor.name not in self.fixed)

    def sets(self) -> tuple[InputSet, ...]:
        """The sets to compare on, no two alike, at least one."""
        if not self.free:
            return (self._set("values" if self.fed else "no inputs", {}, 0, 0),)
        found: dict[str, InputSet] = {}
        for index in range(self.spec.noise):
            self._add_noise(found, index)
        for path in self.spec.images:
            image = self._image(path)
            found.setdefault(image.digest, image)
        if not found:
            raise UsageError(
                "there is nothing to run the models on",
                where="verify.inputs",
                hint="set noise to 1 or more, or name images",
            )
        return tuple(found.values())

    def probes(self, sets: Sequence[InputSet]) -> Iterator[InputSet]:
        """More inputs that differ from ``sets``, to see whether outputs change with them at all.

        Where values fix every input, the floating-point ones get noise of the same shape; then also
        integers and truth values, which a model is likelier to refuse.
        """
        if self.free:
            found = {existing.digest: existing for existing in sets}
            self._add_noise(found, len(sets) + 1, label="probe")
            yield from (added for added in found.values() if added not in sets)
            return
        digests = {existing.digest for existing in sets}
        for kinds in (("float",), ("float", "int", "bool")):
            probe = InputSet("probe", tuple(self._perturbed(tensor, kinds) for tensor in sets[0].tensors))
            if probe.digest not in digests:
                digests.add(probe.digest)
                yield probe

    def _perturbed(self, tensor: Tensor, kinds: tuple[str, ...]) -> Tensor:
        if tensor.input.kind not in kinds or tensor.input.packed:
            return tensor
        return Tensor(tensor.input, self._noise(tensor.input, tensor.array.shape, 1, 0))

    def _add_noise(self, found: dict[str, InputSet], index: int, label: str | None = None) -> None:
        for attempt in range(REDRAWS):
            drawn = self._set(label or f"noise {index}", {}, index, attempt)
            if drawn.digest not in found:
                found[drawn.digest] = drawn
                return

    def _image(self, path: str) -> InputSet:
        tensor = images.image_input(self.free)
        declared = tuple(self.spec.shapes.get(tensor.name) or tensor.shape or ())
        array = images.load(self.base_dir / path, self.preprocessor, declared)
        return self._set(f"{IMAGE}{path}", {tensor.name: array.astype(tensor.numpy)}, 0, 0)

    def _set(
        self, label: str, arrays: Mapping[str, np.ndarray[Any, Any]], index: int, attempt: int
    ) -> InputSet:
        """All inputs: ``arrays`` where given, then fixed values, else noise."""
        fixed = {**self.fixed, **arrays}
        shapes = Shapes(self.fed, self.spec.shapes, fixed)
        tensors = []
        for tensor in self.fed:
            shape = shapes.of(tensor)
            array = fixed.get(tensor.name)
            if array is None:
                array = self._noise(tensor, shape, index, attempt)
            elif array.ndim == 0:
                array = np.full(shape, array, dtype=array.dtype)
            tensors.append(Tensor(tensor, array))
        return InputSet(label, tuple(tensors))

    def _noise(
        self, tensor: TensorInput, shape: tuple[int, ...], index: int, attempt: int
    ) -> np.ndarray[Any, Any]:
        """Normal noise, integers in their range, truth values; a single truth value alternates."""
        seed = [self.spec.seed, index, attempt, zlib.crc32(tensor.name.encode())]
        random = np.random.default_rng(seed)
        if tensor.kind == "float":
            precision = np.float64 if tensor.dtype == "float64" else np.float32
            return random.standard_normal(shape, dtype=precision).astype(tensor.numpy)
        if tensor.kind == "complex":
            real, imaginary = random.standard_normal((2, *shape))
            return np.asarray(real + 1j * imaginary).astype(tensor.numpy)
        if tensor.kind == "bool":
            # The branches of an If should all have their turn.
            single = np.full(shape, (index + attempt) % 2 == 0)
            return single if single.size == 1 else random.integers(0, 2, shape).astype(bool)
        low, high = self.spec.ranges.get(tensor.name, DEFAULT_RANGE)
        return np.asarray(random.integers(low, high, shape, endpoint=True, dtype=np.int64)).astype(
            tensor.numpy
        )


def _check_makeable(tensor: TensorInput) -> None:
    if tensor.kind == "string":
        raise UsageError(
            f"input {tensor.name!r} is text, which cannot be made up",
            where=f"input {tensor.name}",
            **to_set("set", "values", tensor.name, "TEXT"),
        )
    if tensor.packed or tensor.kind not in ("float", "int", "bool", "complex"):
        raise UnsupportedModelError(
            f"input {tensor.name!r} is {tensor.dtype}, which ONNX Runtime cannot be fed from Python",
            where=f"input {tensor.name}",
            hint="verify this model with a script of its own",
        )


def _check_range(tensor: TensorInput, bounds: tuple[int, int] | None) -> None:
    if bounds is None:
        return
    if tensor.kind != "int":
        raise UsageError(
            f"input {tensor.name!r} is {tensor.dtype}; a range is for integers",
            where=f"verify.inputs.ranges.{tensor.name}",
            hint="remove the range, or fix the input with a value",
        )
    low, high = tensor.limits
    if not low <= bounds[0] <= bounds[1] <= high:
        raise UsageError(
            f"[{bounds[0]}, {bounds[1]}] is no range of {tensor.dtype}",
            where=f"verify.inputs.ranges.{tensor.name}",
            hint=f"give the lowest and the highest value, within [{low}, {high}]",
        )
