"""Publishing: read the target's head, plan against it, commit once, read back what is there."""

from hubpublish.publish.access import ensure_target, require_write_token
from hubpublish.publish.commit import Message, Published, check_published, commit_plan, publish
from hubpublish.publish.manifest import Manifest, make_manifest
from hubpublish.publish.plan import Conflict, Plan, PlanEntry, make_plan, refuse_conflicts, refuse_edited
from hubpublish.publish.pull_request import PullRequest, find_pull_request
from hubpublish.publish.staged import StagedFile, stage
from hubpublish.publish.target import TargetState, already_published, read_file, read_target

__all__ = [
    "Conflict",
    "Manifest",
    "Message",
    "Plan",
    "PlanEntry",
    "Published",
    "PullRequest",
    "StagedFile",
    "TargetState",
    "already_published",
    "check_published",
    "commit_plan",
    "ensure_target",
    "find_pull_request",
    "make_manifest",
    "make_plan",
    "publish",
    "read_file",
    "read_target",
    "refuse_conflicts",
    "refuse_edited",
    "require_write_token",
    "stage",
]
