"""One publication, from recipe to Hub: fetch, rewrite, verify, report, card, plan, publish.

Nothing is written to the Hub before the last step, and nothing is done at all when the target
already holds what this run would make.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi
from huggingface_hub.utils import WeakFileLock

from hubpublish import hub, preflight, publish, source
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.devices import PROFILES
from hubpublish.errors import UsageError
from hubpublish.hub import Access
from hubpublish.layout import CARD
from hubpublish.preview import render_preview
from hubpublish.publish import Message, Plan, StagedFile, TargetState
from hubpublish.recipe import Recipe
from hubpublish.recipe.writer import plain
from hubpublish.report import FileRecord, Report, SourceReport, VariantReport
from hubpublish.runlog import RunLog
from hubpublish.source import FetchedSource
from hubpublish.staging import stage_all
from hubpublish.transform import RunContext, Say, transform

PREPROCESSOR = "preprocessor_config.json"
# in the folder of a run
STAGED, FAILED, LOG, PREVIEW, LOCK = "staged", "failed", "run.json", "preview.md", ".lock"


@dataclass(frozen=True)
class RunOptions:
    """How to run a recipe.

    Attributes:
        out: Folder for what is staged, the preview and the log.
        cache: Folder for source files and reference outputs; kept.
        dry_run: Change nothing on the Hub; write a preview instead.
        as_pr: Open or update a pull request instead of committing.
        variant: Take only the variant with this path; for a dry run alone.
        endpoint: Base URL of the Hub; None: from the environment.
        token: For the Hub; None: the machine's own; False: none.
        target: Publish to this repo instead of the recipe's.
        force: Run although the target already holds this result.
    """

    out: Path
    cache: Path
    dry_run: bool = False
    as_pr: bool = False
    variant: str | None = None
    endpoint: str | None = None
    token: str | bool | None = None
    target: str | None = None
    force: bool = False


@dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes:
        status: In a word.
        target: The repo.
        commit: Its head, or the head of the pull request; None if it has none.
        url: Where to look; None for a dry run.
        out: The folder with what was staged; None if there was nothing to do.
        report: What was done; None if there was nothing to do.
    """

    status: Literal["nothing_to_do", "dry_run", "published", "pull_request"]
    target: str
    commit: str | None = None
    url: str | None = None
    out: Path | None = None
    report: Report | None = None


def run(recipe: Recipe, folder: Path, options: RunOptions, environ: Mapping[str, str], say: Say) -> RunResult:
    """Run a recipe.

    Args:
        recipe: What to publish.
        folder: The recipe's folder, where its images are.
        options: How.
        environ: Where the ``${VARIABLES}`` of the target come from.
        say: Called with a line of progress.

    Raises:
        HubpublishError: Any kind. Nothing was published then, unless it is ``published_differs``, or has
            ``published`` among its details: a commit that stands, and could not be read back.
    """
    recipe = _chosen(recipe, options)
    access = hub.access(options.endpoint, options.token)
    target, known = preflight.find_target(recipe, options.target, environ, dry_run=options.dry_run)
    if not known:
        say(f"a variable of target.repo is not set: the dry run names the target {target}")
    upstream = source.resolve(access.read, recipe.source)
    say(f"source {recipe.source.repo} is at commit {upstream.commit[:12]}")
    state = TargetState(target, "main", False, None)
    if known:
        state = preflight.read_target(access, target, publishes=not options.dry_run)
    if not options.force:
        images = preflight.image_hashes(recipe, folder)
        # To look for a pull request takes a token.
        asked = access.write if options.as_pr and not options.dry_run else None
        standing = preflight.standing(recipe, upstream.commit, images, state, access.read, asked)
        if standing is not None:
            return RunResult("nothing_to_do", target, standing.commit, standing.url)
    if not options.dry_run:
        preflight.refuse_early(access, recipe, state, as_pr=options.as_pr)
    preflight.check_license(recipe, upstream)
    fetched = source.fetch(access.read, recipe, upstream, options.cache / "sources")
    with _alone_in(options.out, say):
        return _finished(recipe, folder, fetched, state, access, options, say)


def _finished(
    recipe: Recipe,
    folder: Path,
    fetched: FetchedSource,
    state: TargetState,
    access: Access,
    options: RunOptions,
    say: Say,
) -> RunResult:
    target, api = state.repo, access.write
    report, staged = _made(recipe, folder, fetched, target, options, say)
    for warning in hub.validate_card(access.read, (options.out / STAGED / CARD).read_text("utf-8")):
        say(f"the Hub warns of the model card: {warning}")
    if options.dry_run:
        plan = publish.make_plan(access.read, state, staged)
        _preview(
            access.read, plan if options.variant is None else plan.without_deletions(), report, options.out
        )
        return RunResult("dry_run", target, state.head, None, options.out, report)
    made = recipe.target
    publish.ensure_target(api, target, create=made.create, private=made.private, as_pr=options.as_pr)
    say(f"publishing to {target}")
    done = publish.publish(api, target, staged, _message(report), as_pr=options.as_pr)
    status: Literal["published", "pull_request"] = "pull_request" if done.pull_request else "published"
    url = done.pull_request or _url(api, target)
    return RunResult(
        status if done.changed else "nothing_to_do", target, done.commit, url, options.out, report
    )


def _chosen(recipe: Recipe, options: RunOptions) -> Recipe:
    if options.variant is None:
        return recipe
    if not options.dry_run:
        raise UsageError(
            "--variant publishes a part of a release only",
            hint="use it with --dry-run; publish all variants together",
        )
    chosen = tuple(each for each in recipe.variants if each.path == options.variant)
    if not chosen:
        known = ", ".join(each.path for each in recipe.variants)
        raise UsageError(f"the recipe has no variant {options.variant}", hint=f"it has: {known}")
    return recipe.model_copy(update={"variants": chosen})


def _made(
    recipe: Recipe,
    folder: Path,
    fetched: FetchedSource,
    target: str,
    options: RunOptions,
    say: Say,
) -> tuple[Report, tuple[StagedFile, ...]]:
    """Everything that is published, made and proved in the folder of the run."""
    with _writing_to(options.out):
        context = _context(recipe, folder, fetched, options, say)
    try:
        variants = tuple(transform(each, context) for each in fetched.variants)
    finally:
        with _writing_to(options.out):
            context.log.write(options.out / LOG)
    resolved = recipes.resolved(
        recipe,
        commit=fetched.commit,
        target=target,
        copied={file.path: file.sha256 for file in fetched.copied},
    )
    key = reports.run_key(resolved, preflight.image_hashes(recipe, folder))
    report = _report(resolved, fetched, variants, key)
    with _writing_to(options.out):
        return report, stage_all(report, resolved, fetched.copied, context.staging)


@contextmanager
def _alone_in(out: Path, say: Say) -> Iterator[None]:
    """Hold the folder of the run: another run's files must not come between proof and upload."""
    with ExitStack() as held:
        with _writing_to(out):
            out.mkdir(parents=True, exist_ok=True)
            try:
                held.enter_context(WeakFileLock(out / LOCK, timeout=1.0))
            except TimeoutError:
                say(f"waiting for another run that is at work in {out}")
                held.enter_context(WeakFileLock(out / LOCK))
        yield


@contextmanager
def _writing_to(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write the run's files: {error.strerror or error}",
            where=str(error.filename2 or error.filename or out),  # of two, the second is written
            hint="make room or the folder writable, or name another with --out",
            kind="cannot_write",
        ) from error


def _context(
    recipe: Recipe, folder: Path, fetched: FetchedSource, options: RunOptions, say: Say
) -> RunContext:
    staging, failures = options.out / STAGED, options.out / FAILED
    if staging.exists() and not (options.out / LOG).exists():
        raise UsageError(
            f"{staging} exists, and was not made by a run", hint="name another folder with --out"
        )
    log = RunLog.start()
    options.out.mkdir(parents=True, exist_ok=True)
    log.write(options.out / LOG)  # first of all: it marks the folder as ours, also after a crash
    for old in (staging, failures):
        shutil.rmtree(old, ignore_errors=True)
    (options.out / PREVIEW).unlink(missing_ok=True)
    staging.mkdir()
    return RunContext(
        recipe=recipe,
        folder=folder,
        preprocessor=next((file.local for file in fetched.copied if file.path == PREPROCESSOR), None),
        staging=staging,
        failures=failures,
        references=options.cache / "references",
        log=log,
        say=say,
    )


def _report(
    resolved: Recipe, fetched: FetchedSource, variants: tuple[VariantReport, ...], key: str
) -> Report:
    return Report(
        key=key,
        versions=reports.versions(),
        target=resolved.target.repo,
        source=SourceReport(repo=fetched.repo, commit=fetched.commit, license=fetched.license),
        device=PROFILES[resolved.device.profile],
        recipe=plain(resolved),
        copied=tuple(FileRecord(path=f.path, sha256=f.sha256, size=f.size) for f in fetched.copied),
        variants=variants,
    )


def _preview(api: HfApi, plan: Plan, report: Report, out: Path) -> None:
    old = publish.read_file(api, plan.state, CARD) or b""
    new = (out / STAGED / CARD).read_text("utf-8")
    text = render_preview(report, plan, old.decode("utf-8", "replace"), new)
    with _writing_to(out):
        (out / PREVIEW).write_text(text, encoding="utf-8", newline="\n")


def _message(report: Report) -> Message:
    origin = f"{report.source.repo} at {report.source.commit}"
    passes = ", ".join(dict.fromkeys(each.name for variant in report.variants for each in variant.passes))
    return Message(
        f"Rewrite of {report.source.repo}@{report.source.commit[:12]} for {report.device.name}",
        f"Source: {origin}\nPasses: {passes}\nMade by hubpublish {report.versions['hubpublish']}; "
        "what was done and measured is in report.json.",
    )


def _url(api: HfApi, target: str) -> str:
    return f"{api.endpoint}/{target}"
