"""Pictures for the preview: an input, the mask before and after, and their difference amplified.

They are drawn of what a verification kept. Pillow is an optional extra; only pictures need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from hubpublish import pixels
from hubpublish.pixels import Array, Pixels
from hubpublish.report import Report, VariantReport
from hubpublish.verify import OutputComparison, kept
from hubpublish.verify.kept import Kept, KeptOutput, KeptTensor
from hubpublish.verify.result import Level

MOST_OUTPUTS: Final = 3  # of a variant that are drawn
LONGEST_NAME: Final = 60  # characters of a name in the name of a file
PILLOW: Final = "pip install 'hubpublish[images]'"


@dataclass(frozen=True)
class Picture:
    """A PNG file by its path from the preview's folder, what it shows, and in words how it was made."""

    path: str
    alt: str
    words: str


@dataclass(frozen=True)
class PictureRow:
    """The four pictures of one output, and what was counted on it."""

    input: str
    output: str
    comparison: OutputComparison
    before: Picture
    after: Picture
    difference: Picture
    source: Picture


@dataclass(frozen=True)
class VariantPictures:
    """The pictures of one variant, all of the input set with this label, at one optimization level.

    ``image`` says that the set is an image, and not noise.
    """

    path: str
    label: str
    image: bool
    level: Level
    rows: tuple[PictureRow, ...]


@dataclass(frozen=True)
class Pictures:
    """All pictures of a run. ``missing`` says what it takes to have some; None where nothing is missing."""

    variants: tuple[VariantPictures, ...] = ()
    missing: str | None = None


NONE: Final = Pictures()


def draw(report: Report, kept_in: Path, folder: Path, preprocessor: Path | None = None) -> Pictures:
    """Draw what can be drawn. The same outputs give the same bytes.

    Args:
        report: What was done; its figures go with the pictures.
        kept_in: Where the outputs of each variant were kept, under its path.
        folder: Where the pictures go, beside the preview; made if there is something to draw.
        preprocessor: The ``preprocessor_config.json`` that images went through, if the file exists.

    Raises:
        OSError: A picture cannot be written.
    """
    if preprocessor is not None and not preprocessor.is_file():
        preprocessor = None
    drawable = [
        (number, found)
        for number, variant in enumerate(report.variants, start=1)
        if (found := _Drawable.of(variant, kept_in / variant.path)) is not None
    ]
    if not drawable:
        return NONE
    pillow = _pillow()
    if pillow is None:
        return Pictures(missing=f"pictures of the outputs need Pillow: `{PILLOW}`")
    drawn = []
    for number, each in drawable:
        album = _Album(folder, f"{number}-{_slug(each.variant.path)}", pillow)
        drawn.append(each.draw(album, preprocessor))
    return Pictures(tuple(drawn))


def _pillow() -> ModuleType | None:
    try:
        import PIL.Image
    except ImportError:
        return None
    return PIL.Image


@dataclass(frozen=True)
class _Album:
    """A variant's pictures in the folder of all; ``name`` begins their names."""

    folder: Path
    name: str
    pillow: ModuleType

    def add(self, name: str, alt: str, drawn: Pixels) -> Picture:
        file = self.folder / f"{self.name}-{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        self.pillow.fromarray(drawn.array).save(file, format="PNG")
        return Picture(f"{self.folder.name}/{file.name}", alt, drawn.words)


@dataclass(frozen=True)
class _Drawable:
    """A variant of which an input looks like an image and an output like a mask."""

    variant: VariantReport
    kept: Kept
    input: tuple[KeptTensor, Array]
    outputs: tuple[tuple[OutputComparison, Array, Array], ...]

    @classmethod
    def of(cls, variant: VariantReport, folder: Path) -> _Drawable | None:
        """What there is to draw of a variant; None if nothing."""
        found = kept.read(folder)
        source = _input(found, folder) if found else None
        if found is None or source is None:
            return None
        outputs = tuple(_outputs(variant, found, folder, source[1]))
        return cls(variant, found, source, outputs) if outputs else None

    def draw(self, album: _Album, preprocessor: Path | None) -> VariantPictures:
        tensor, values = self.input
        source = album.add("input", "input", pixels.image(values, preprocessor))
        rows = []
        for number, (comparison, before, after) in enumerate(self.outputs, start=1):
            name = f"{number}-{_slug(comparison.name)}"
            first, second = pixels.masks(before, after)
            rows.append(
                PictureRow(
                    input=tensor.name,
                    output=comparison.name,
                    comparison=comparison,
                    source=source,
                    before=album.add(f"{name}-before", "mask before", first),
                    after=album.add(f"{name}-after", "mask after", second),
                    difference=album.add(
                        f"{name}-difference", "difference", pixels.difference(before, after)
                    ),
                )
            )
        about = self.kept
        return VariantPictures(self.variant.path, about.label, about.image, about.level, tuple(rows))


def _input(found: Kept, folder: Path) -> tuple[KeptTensor, Array] | None:
    """The first input that looks like an image, as [H, W, C]; one in colour before one in grey."""
    candidates = []
    for tensor in found.inputs:
        values = kept.array(folder, tensor) if len(tensor.shape) == 4 and tensor.shape[0] == 1 else None
        if values is None or not _is_drawn(values, "fu"):
            continue
        if tensor.shape[1] not in (1, 3) and tensor.shape[3] in (1, 3):
            candidates.append((tensor, values[0]))
        elif tensor.shape[1] in (1, 3):
            candidates.append((tensor, values[0].transpose(1, 2, 0)))
    candidates = [each for each in candidates if min(each[1].shape[:2]) > 1]
    return max(candidates, key=lambda each: each[1].shape[2], default=None)


def _outputs(
    variant: VariantReport, found: Kept, folder: Path, image: Array
) -> Iterator[tuple[OutputComparison, Array, Array]]:
    """The first outputs that look like masks of ``image``, with what was counted on them."""
    levels = [level for level in variant.verification.levels if level.level == found.level]
    results = [result for level in levels for result in level.inputs if result.label == found.label]
    counted = {output.name: output for result in results for output in result.outputs}
    left = MOST_OUTPUTS
    for output in found.outputs:
        comparison = counted.get(output.original.name)
        if not left or comparison is None or comparison.shape != output.original.shape:
            continue
        planes = _planes(output, folder, image)
        if planes is not None:
            left -= 1
            yield comparison, *planes


def _planes(output: KeptOutput, folder: Path, image: Array) -> tuple[Array, Array] | None:
    """Both masks as [H, W]; None when the output is none."""
    shape = output.original.shape
    if not _is_mask(shape, image.shape) or shape != output.rewritten.shape:
        return None
    before, after = (kept.array(folder, tensor) for tensor in (output.original, output.rewritten))
    if before is None or after is None or before.dtype != after.dtype or not _is_drawn(before, "fiub"):
        return None
    return before.reshape(shape[-2:]), after.reshape(shape[-2:])


def _is_mask(shape: tuple[int, ...], image: tuple[int, ...]) -> bool:
    """[1, 1, H, W], and [1, H, W] of the image's proportions, which a sequence of tokens does not have."""
    if len(shape) not in (3, 4) or any(size != 1 for size in shape[:-2]) or min(shape[-2:]) < 2:
        return False
    (height, width), (rows, columns) = shape[-2:], image[:2]
    # Sides are rounded to whole strides: one off is still the same proportion.
    return len(shape) == 4 or abs(height * columns - width * rows) <= max(rows, columns)


def _is_drawn(values: Array, kinds: str) -> bool:
    """Whether the values are numbers of these kinds; ml_dtypes' floats are of kind V or f."""
    return values.dtype.kind in kinds or values.dtype.name.startswith(("bfloat", "float"))


def _slug(name: str) -> str:
    """What of a name can be part of a file's name on every system, and of a URL; it may be another's too."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:LONGEST_NAME].strip(".-") or "unnamed"
