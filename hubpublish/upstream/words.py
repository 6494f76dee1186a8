"""Status and bump in words: lines for a terminal, Markdown for a pull request.

Names of files, inputs and operators are whatever somebody put on the Hub: none may end a line, move a
cursor, or become markup.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hubpublish.markdown import cell
from hubpublish.upstream.bump import Bump
from hubpublish.upstream.changes import FileChange
from hubpublish.upstream.differences import ModelDifference, ModelFacts, ValueChange, WeightsDifference
from hubpublish.upstream.status import RecipeStatus
from hubpublish.words import plural, readable_binary_bytes

SHOWN: Final = 10  # files of a kind, operators
_TARGET: Final = {
    "up_to_date": "target up to date",
    "behind": "target behind",
    "missing": "nothing published yet",
    "edited": "target edited",
    "withdrawn": "rolled back in the target",
}

Quote = Callable[[str], str]


def status_lines(status: RecipeStatus) -> Iterator[str]:
    """What a person wants to know of a recipe: a line, then details with an indent."""
    yield f"{plain(status.recipe)}: {_summary(status)}"
    if status.source and status.commit:
        target = f", target {status.target}" if status.target else ""
        yield f"  source {status.source} at {status.commit[:12]}{target}"
    yield from (f"  {line}" for line in _file_lines(status.files))
    yield from (f"  {status.target}: {plain(path)} {what}" for path, what in status.edited.items())
    if status.error:
        where = f"{status.error['where']}: " if status.error.get("where") else ""
        yield from (f"  {plain(line)}" for line in f"{where}{status.error['message']}".splitlines())
    yield from (f"  next: {step}" for step in _next_steps(status))


def _summary(status: RecipeStatus) -> str:
    if status.upstream == "unknown":
        return "status unknown"
    what = f" ({', '.join(status.what)})" if status.what else ""
    # What the recipe does not take may change without any pin being broken.
    upstream = (
        f"upstream {'changed' if status.upstream == 'changed' else 'moved' if what else 'unchanged'}{what}"
    )
    target = _TARGET.get(status.published)
    return f"{upstream}, {target}" if target else upstream


def _file_lines(files: Sequence[FileChange]) -> Iterator[str]:
    taken = [each for each in files if each.role in ("model", "data", "copied")]
    others = [each for each in files if each not in taken]
    for each in [*taken, *others[:SHOWN]]:
        yield f"{plain(each.path)} {each.change}{_hashes(each)}"
    if len(others) > SHOWN:
        yield f"and {plural(len(others) - SHOWN, 'file')} more that the recipe does not take"


def _hashes(change: FileChange) -> str:
    if change.change == "removed":
        return f": it may be {plain(change.now)} now" if change.now else ""
    if change.old is None or change.new is None:
        return ""
    return f": it was {change.old[:12]}, and is {change.new[:12]}"


def _next_steps(status: RecipeStatus) -> Iterator[str]:
    recipe = plain(shlex.quote(status.recipe))
    if status.error:
        if status.error.get("hint"):
            yield plain(str(status.error["hint"]))
        return
    if any(each.is_lost for each in status.files):
        yield "find out where the files went, and correct the recipe"
    elif status.action == "bump":
        yield f"hubpublish bump {recipe}"
    if status.published == "edited":
        yield f"undo the edits, or propose to replace them: hubpublish run {recipe} --as-pr"
    elif status.action == "look" and status.published == "withdrawn":
        yield f"change the recipe, or publish it again all the same: hubpublish run {recipe} --force"
    elif status.action == "publish":
        yield f"hubpublish run {recipe}"
    if status.target is None:
        yield "set the variables that target.repo names, to learn how the target stands"


def bump_lines(bump: Bump) -> Iterator[str]:
    """What a bump changes and why, for a terminal."""
    where = f"{bump.source} is at {bump.new_commit[:12]}"
    if not bump.changed:
        yield f"{plain(str(bump.recipe))}: nothing to bump: {where}, and every pin holds"
        return
    yield f"{plain(str(bump.recipe))}: {where}"
    if bump.old_commit not in (None, bump.new_commit):
        yield f"  source.revision: {str(bump.old_commit)[:12]} -> {bump.new_commit[:12]}"
    for pin in bump.pins:
        yield f"  {pin.key} ({plain(pin.path)}): {pin.old[:12]} -> {pin.new[:12]}"
    for difference in bump.differences:
        yield f"  {plain(difference.path)}"
        yield from (f"    {sentence}" for sentence in sentences(difference, plain))
    if bump.files:
        yield f"  {_also(bump.files, plain)}"
    yield from (f"  {plain(note)}" for note in bump.notes)


def bump_markdown(bump: Bump) -> str:
    """What a bump changes and why, as the text of a pull request; empty if nothing changes."""
    if not bump.changed:
        return ""
    commit = f"[`{bump.new_commit[:12]}`]({bump.url}/commit/{bump.new_commit})"
    since = f", the recipe pins `{bump.old_commit[:12]}`" if bump.old_commit else ""
    parts = [f"[{bump.source}]({bump.url}) is at commit {commit}{since}."]
    if bump.pins:
        rows = [(code(pin.path), f"`{pin.old[:12]}`", f"`{pin.new[:12]}`") for pin in bump.pins]
        table = [("file", "SHA-256 so far", "SHA-256 now"), ("---",) * 3, *rows]
        parts.append("\n".join(f"| {' | '.join(map(cell, row))} |" for row in table))
    else:
        parts.append("No file that the recipe pins has changed.")
    for difference in bump.differences:
        parts.append(f"**{code(difference.path)}**")
        parts.append("\n".join(f"- {sentence}" for sentence in sentences(difference, code)))
    if bump.files:
        parts.append(_also(bump.files, code))
    parts += [f"**Look at this:** {code(note)}" for note in bump.notes]
    return "\n\n".join(parts) + "\n"


def sentences(difference: ModelDifference, quote: Quote) -> Iterator[str]:
    """How a model changed, a sentence each.

    Args:
        difference: What is known.
        quote: Makes a name safe for where it is going to stand.
    """
    old, new = difference.old, difference.new
    if difference.reason:
        yield f"There is no comparison: {quote(difference.reason)}."
        for which, facts in (("old", old), ("new", new)):
            if facts is not None:
                yield from _one(which, facts, quote)
        return
    assert old is not None
    assert new is not None
    assert difference.weights is not None
    if difference.equal:
        yield "Names, descriptions or the order changed, nothing else: same graph, same weights."
        return
    yield from _graphs(difference, old, new, quote)
    yield _weights(difference.weights, old, new)
    if difference.graph_equal and difference.weights.equal:
        yield "The same weights are used in other places."


def _graphs(difference: ModelDifference, old: ModelFacts, new: ModelFacts, quote: Quote) -> Iterator[str]:
    if difference.graph_equal:
        yield "The graph is equal apart from its weights."
        return
    count = plural(new.nodes, "node")
    yield f"The graph differs: {count}" + (
        f", it had {old.nodes:,}." if old.nodes != new.nodes else ", as before."
    )
    if difference.ops_added:
        yield f"Operators added: {_counted(difference.ops_added, quote)}."
    if difference.ops_removed:
        yield f"Operators removed: {_counted(difference.ops_removed, quote)}."
    for domain in sorted({*old.opsets, *new.opsets}):
        before, after = old.opsets.get(domain), new.opsets.get(domain)
        if before != after:
            of = f" of {quote(domain)}" if domain else ""
            yield f"The opset{of} is {after or 'no longer imported'}, it was {before or 'not imported'}."
    if old.ir_version != new.ir_version:
        yield f"The IR version is {new.ir_version}, it was {old.ir_version}."
    yield from (_interface(each, quote) for each in difference.interface)


def _one(which: str, facts: ModelFacts, quote: Quote) -> Iterator[str]:
    yield (
        f"The {which} model has {plural(facts.nodes, 'node')}, opset {facts.opsets.get('', '-')}, "
        f"IR version {facts.ir_version} and {_tensors(facts.weights, facts.weight_bytes)} of weights."
    )
    for kind, values in (("inputs", facts.inputs), ("outputs", facts.outputs)):
        listed = ", ".join(f"{quote(name)} {quote(type_)}" for name, type_ in values.items())
        yield f"Its {kind}: {listed or 'none'}."


def _interface(change: ValueChange, quote: Quote) -> str:
    name = f"{change.kind} {quote(change.name)}"
    if change.old is None or change.new is None:
        verb = "gone" if change.new is None else "new"
        return f"The {name} is {verb}: {quote(change.new or change.old or '')}."
    return f"The {name} is {quote(change.new)}, it was {quote(change.old)}."


def _weights(weights: WeightsDifference, old: ModelFacts, new: ModelFacts) -> str:
    if weights.equal:
        return f"The weights are equal: {_tensors(new.weights, new.weight_bytes)}."
    if not weights.added:
        gone = _tensors(weights.removed, weights.removed_bytes)
        return f"Weights: gone without a successor: {gone}; the other {new.weights:,} are equal."
    sizes = f"{readable_binary_bytes(weights.added_bytes)} of {readable_binary_bytes(new.weight_bytes)}"
    before = f"; there were {old.weights:,}" if old.weights != new.weights else ""
    return f"Weights: {weights.added:,} of {plural(new.weights, 'tensor')} differ ({sizes}){before}."


def _tensors(count: int, nbytes: int) -> str:
    return f"{plural(count, 'tensor')} ({readable_binary_bytes(nbytes)})"


def _counted(ops: Mapping[str, int], quote: Quote) -> str:
    shown = [f"{quote(op)} {count:,}" for op, count in list(ops.items())[:SHOWN]]
    more = [f"and {len(ops) - SHOWN} more"] if len(ops) > SHOWN else []
    return ", ".join([*shown, *more])


def _also(files: Iterable[FileChange], quote: Quote) -> str:
    every = [f"{quote(each.path)} ({each.change})" for each in files]
    more = [f"and {len(every) - SHOWN} more"] if len(every) > SHOWN else []
    return f"Other files of the source: {', '.join([*every[:SHOWN], *more])}."


def plain(text: str) -> str:
    """A name on a line of its own making: what is not printable becomes a question mark."""
    return "".join(each if each.isprintable() else "?" for each in text)


def code(text: str) -> str:
    """A name as a span of code in Markdown, whatever is in it."""
    text = " ".join(plain(text).split()) or " "
    fence = "`" * max([1, *(len(run) + 1 for run in re.findall("`+", text))])
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
