"""One publication, from recipe to Hub: fetch, rewrite, verify, report, card, plan, publish.

Nothing is written to the Hub before the last step, and nothing is done at all when the target
already holds what this run would make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi

from hubpublish import hub, pictures, preflight, provenance, publish, signing, source
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.devices import PROFILES
from hubpublish.errors import UsageError
from hubpublish.hub import Access
from hubpublish.job import Job, RunOptions
from hubpublish.layout import CARD
from hubpublish.preview import render_preview
from hubpublish.publish import Message, Plan, StagedFile, TargetState
from hubpublish.recipe import Recipe
from hubpublish.recipe.writer import plain
from hubpublish.report import FileRecord, Report, SourceReport, VariantReport
from hubpublish.staging import add_signature, stage_all
from hubpublish.transform import RunContext, Say, transform
from hubpublish.workspace import Workspace

PREPROCESSOR = "preprocessor_config.json"


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

    status: Literal["nothing_to_do", "withdrawn", "dry_run", "published", "pull_request"]
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
        state, access = preflight.read_target(access, target, publishes=not options.dry_run)
    images = preflight.image_hashes(recipe, folder)
    if not options.force:
        # To look for a pull request takes a token.
        asked = access.write if options.as_pr and not options.dry_run else None
        standing = preflight.standing(recipe, upstream.commit, images, state, access.target, asked)
        if standing is not None:
            if not options.dry_run:
                preflight.tag_standing(access, recipe, upstream.commit, state, standing)
            if options.sign and not publish.is_signed(state):
                say("it is not signed, and a signature alone is no reason for a commit: --force signs it")
            return RunResult("nothing_to_do", target, standing.commit, standing.url)
        if not options.dry_run and preflight.is_withdrawn(recipe, upstream.commit, images, state):
            return RunResult("withdrawn", target, state.head, _url(access.read, target))
    if not options.dry_run:
        preflight.refuse_early(access, recipe, state, as_pr=options.as_pr)
    preflight.check_license(recipe, upstream)
    if options.sign and not options.dry_run:
        signing.require()
    fetched = source.fetch(access.read, recipe, upstream, options.cache / "sources")
    job = Job(recipe, folder, fetched, target, images, options, say)
    if job.tag and state.exists and not options.as_pr:
        same = partial(publish.already_published, key=job.key)
        publish.check_tag(access.target, target, job.tag, None, same_result=same)
    with options.workspace.alone(say):
        return _finished(job, state, access)


def _finished(job: Job, state: TargetState, access: Access) -> RunResult:
    recipe, options, say = job.recipe, job.options, job.say
    target, api = state.repo, access.write
    report, staged = _made(job)
    if publish.is_withdrawn(state, staged) and not options.force:
        say(f"this result was rolled back in {target}: only --force publishes it again")
        if not options.dry_run:
            return RunResult("withdrawn", target, state.head, _url(api, target), options.out, report)
    for warning in hub.validate_card(access.read, (options.workspace.staged / CARD).read_text("utf-8")):
        say(f"the Hub warns of the model card: {warning}")
    if options.dry_run:
        plan = publish.make_plan(access.read, state, staged)
        shown = plan if options.variant is None else plan.without_deletions()
        _preview(access.read, shown, report, options.workspace)
        return RunResult("dry_run", target, state.head, None, options.out, report)
    made = recipe.target
    publish.ensure_target(api, target, create=made.create, private=made.private, as_pr=options.as_pr)
    if options.sign:
        say("signing")
        with options.workspace.writing():
            staged = add_signature(staged, report, recipe, options.workspace.staged)
    say(f"publishing to {target}")
    done = publish.publish(
        api,
        target,
        staged,
        _message(report),
        as_pr=options.as_pr,
        tag=job.tag,
        again=options.force,
    )
    status: Literal["published", "pull_request"] = "pull_request" if done.pull_request else "published"
    if status == "published":  # also where nothing was left to commit: an attestation may have failed
        options.workspace.write(provenance.for_attesting(report))
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


def _made(job: Job) -> tuple[Report, tuple[StagedFile, ...]]:
    """Everything that is published, made and proved in the folder of the run."""
    space = job.options.workspace
    with space.writing():
        context = _context(job)
    try:
        variants = tuple(transform(each, context) for each in job.fetched.variants)
    finally:
        with space.writing():
            context.log.write(space.log)
    applied = {each.path: [(used.name, used.options) for used in each.passes] for each in variants}
    published = recipes.with_passes(job.resolved, applied)
    report = _report(job, published, variants)
    with space.writing():
        return report, stage_all(report, published, job.fetched.copied, context.staging)


def _context(job: Job) -> RunContext:
    space, copied = job.options.workspace, job.fetched.copied
    return RunContext(
        recipe=job.recipe,
        folder=job.folder,
        preprocessor=next((file.local for file in copied if file.path == PREPROCESSOR), None),
        staging=space.staged,
        failures=space.failed,
        cache=job.options.cache,
        log=space.begin(),
        say=job.say,
        keep=space.outputs if job.options.dry_run else None,
    )


def _report(job: Job, published: Recipe, variants: tuple[VariantReport, ...]) -> Report:
    resolved, fetched = job.resolved, job.fetched
    return Report(
        key=job.key,
        content_key=job.content_key,
        versions=reports.versions(webgpu=resolved.asks_for_webgpu),
        target=resolved.target.repo,
        source=SourceReport(repo=fetched.repo, commit=fetched.commit, license=fetched.license),
        device=PROFILES[resolved.device.profile],
        recipe=plain(published),
        copied=tuple(FileRecord(path=f.path, sha256=f.sha256, size=f.size) for f in fetched.copied),
        variants=variants,
    )


def _preview(api: HfApi, plan: Plan, report: Report, space: Workspace) -> None:
    old = publish.read_file(api, plan.state, CARD) or b""
    new = plan.file(CARD)
    assert new is not None
    with space.writing():
        drawn = pictures.draw(report, space.outputs, space.pictures, space.staged / PREPROCESSOR)
        text = render_preview(
            report,
            plan,
            old.decode("utf-8", "replace"),
            new.read().decode("utf-8"),
            drawn,
            withdrawn=publish.is_withdrawn(plan.state, plan.staged),
        )
    space.write({space.preview.name: text})


def _message(report: Report) -> Message:
    origin = f"{report.source.repo} at {report.source.commit}"
    passes = ", ".join(dict.fromkeys(each.name for variant in report.variants for each in variant.passes))
    source = f"{report.source.repo}@{report.source.commit[:12]}"
    rewritten = any(variant.was_rewritten for variant in report.variants)
    return Message(
        f"{'Rewrite' if rewritten else 'Unchanged graph'} of {source} for {report.device.name}",
        f"Source: {origin}\nPasses: {passes}\nMade by hubpublish {report.versions['hubpublish']}; "
        "what was done and measured is in report.json.",
    )


def _url(api: HfApi, target: str) -> str:
    return f"{api.endpoint}/{target}"
