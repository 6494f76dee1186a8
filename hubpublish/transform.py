"""One variant on its way through: rewritten, measured, verified, and described."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hubpublish.errors import HubpublishError, VerificationError
from hubpublish.inspection import Auto
from hubpublish.recipe import Recipe, VerifySpec
from hubpublish.report import FileRecord, VariantReport
from hubpublish.rewrite import Rewrite, rewrite
from hubpublish.runlog import RunLog
from hubpublish.source import FetchedVariant
from hubpublish.verify import Verification, signature, verification_error, verify
from hubpublish.verify.bisect import Culprit, bisect, builder
from hubpublish.verify.scratch import scratch
from hubpublish.verify.webgpu import WebGpuVerification, verify_webgpu, webgpu_error
from hubpublish.words import printable

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunContext:
    """What every variant of a run is worked on with.

    Attributes:
        recipe: What to do.
        folder: The recipe's folder, where its images are.
        preprocessor: The source's preprocessor_config.json, if it is published.
        staging: Where the new files go, under their paths in the repo.
        failures: Where to put what shows why a verification failed.
        cache: For the originals' outputs, and what lowers the limits of a device; kept.
        log: Durations and memory.
        say: Called with a line of progress.
        keep: Where to keep an input and the outputs of each variant, under its path; None: nowhere.
    """

    recipe: Recipe
    folder: Path
    preprocessor: Path | None
    staging: Path
    failures: Path
    cache: Path
    log: RunLog
    say: Say
    keep: Path | None = None


def transform(fetched: FetchedVariant, context: RunContext) -> VariantReport:
    """Rewrite and verify a variant; afterwards its new files are in the staging folder.

    Raises:
        UnsupportedModelError, DeviceFitError: It cannot be rewritten so that it fits.
        VerificationError: The rewrite does not compute the same, or that could not be decided.
    """
    variant = fetched.variant
    context.say(f"rewriting {variant.path}")
    passes = context.recipe.build_passes(variant)
    with context.log.timed(f"rewrite {variant.path}"), _named_as_in_the_repo(fetched):
        done = rewrite(
            fetched.model.local,
            context.staging / variant.path,
            passes,
            context.recipe.device.build(),
        )
    for warning in _warnings(variant.path, done):
        context.say(printable(warning))
    files = [done.saved.path, *([done.saved.data] if done.saved.data else [])]
    # Before the verification: a file that changes while it runs must not pass for what was verified.
    output = tuple(FileRecord.of(path.relative_to(context.staging).as_posix(), path) for path in files)
    context.say(f"verifying {variant.path}")
    spec = _spec(fetched, done, context)
    result = verify(
        fetched.model.local,
        done.saved.path,
        spec=spec,
        base_dir=context.folder,
        preprocessor=context.preprocessor,
        cache=context.cache / "references",
        keep=context.keep / variant.path if context.keep else None,
        progress=context.say,
    )
    context.log.add_runs(variant.path, result.runs)
    if not result:
        raise _failed(result, fetched, done, spec, context)
    on_webgpu = _on_webgpu(fetched, done, spec, context)
    return VariantReport.of(fetched, output, done, result, on_webgpu, auto=isinstance(passes, Auto))


def _warnings(path: str, done: Rewrite) -> Iterator[str]:
    """What whoever publishes this should know before."""
    if not any(outcome.rewritten for outcome in done.outcomes):
        yield f"{path}: nothing was rewritten, the file is upstream's graph, written again"
    assert done.inspection is not None
    fit = done.inspection.fit
    for width in fit.cannot_run:
        yield (
            f"{path} will not run on {fit.profile}: {width.node} ({width.op}) binds "
            f"{width.slots} storage buffers, and no pass can narrow it"
        )
    if done.inspection.fails_on:
        yield f"{path} will not run in {', '.join(done.inspection.fails_on)}: the card and webgpu.json say so"


def _spec(fetched: FetchedVariant, done: Rewrite, context: RunContext) -> VerifySpec:
    """How to verify a variant: in the shapes that a pass gave its inputs, if the recipe names no others."""
    spec = fetched.variant.verify or context.recipe.verify
    if not any(each.fixes_shapes for each in done.passes):
        return spec
    fixed = signature.narrowed(signature.read(fetched.model.local), signature.read(done.saved.path))
    inputs = spec.inputs.model_copy(update={"shapes": {**fixed, **spec.inputs.shapes}})
    return spec.model_copy(update={"inputs": inputs})


def _on_webgpu(
    fetched: FetchedVariant, done: Rewrite, spec: VerifySpec, context: RunContext
) -> WebGpuVerification | None:
    """The variant on WebGPU, if the recipe asks for that."""
    if spec.webgpu is None:
        return None
    result = verify_webgpu(
        fetched.model.local,
        done.saved.path,
        spec=spec.webgpu,
        inputs=spec.inputs,
        base_dir=context.folder,
        preprocessor=context.preprocessor,
        cache=context.cache,
        progress=context.say,
    )
    if not result:
        error = webgpu_error(result)
        error.where = fetched.variant.path
        raise error
    return result


@contextmanager
def _named_as_in_the_repo(fetched: FetchedVariant) -> Iterator[None]:
    """Errors name the model by its path in the repo, not in a cache that nobody knows."""
    try:
        yield
    except HubpublishError as error:
        if error.where:
            error.where = error.where.replace(str(fetched.model.local), fetched.variant.path)
        raise


def _failed(
    result: Verification,
    fetched: FetchedVariant,
    done: Rewrite,
    spec: VerifySpec,
    context: RunContext,
) -> VerificationError:
    """The error of a verification, with the node that is to blame if one can be found."""
    error = verification_error(result)
    folder = context.failures / fetched.variant.path
    context.say(f"{fetched.variant.path}: {result.reason}; looking for the cause")
    culprit = _culprit(result, fetched, done, spec, folder, context)
    evidence = f"; the models before and after it and their inputs are in {folder}" if culprit else ""
    return VerificationError(
        error.what + (f"; the cause is {culprit}" if culprit else ""),
        where=fetched.variant.path,
        hint=f"{error.hint}{evidence}",
        kind=error.kind,
        details={**error.details, "culprit": culprit.model_dump(mode="json") if culprit else None},
    )


def _culprit(
    result: Verification,
    fetched: FetchedVariant,
    done: Rewrite,
    spec: VerifySpec,
    folder: Path,
    context: RunContext,
) -> Culprit | None:
    original = fetched.model.local
    try:
        with scratch("hubpublish-builds-") as builds:
            return bisect(
                result,
                original,
                builder(original, done.passes, builds),
                done.outcomes,
                spec=spec,
                base_dir=context.folder,
                out=folder,
                preprocessor=context.preprocessor,
                cache=context.cache / "references",
                progress=context.say,
            )
    except Exception as error:  # a search that breaks off must not hide what was found
        context.say(f"the cause was not found: {error}")
        return None
