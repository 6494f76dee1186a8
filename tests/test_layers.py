"""Each module imports only from its left: the architecture of CONTRIBUTING.md as a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "hubpublish"

FLOOR = (
    "errors",
    "layout",
    "words",
    "markdown",
    "regions",
    "transformers_js",
    "model",
    "passes",
    "devices",
    "localhub",
    "hub",
)
LINE = (
    *(
        "inspection",
        "recipe",
        "source",
        "misfit",
        "rewrite",
        "verify",
        "runlog",
        "report",
        "webgpu",
        "rows",
        "original",
        "on_device",
        "usage",
        "card",
    ),
    *("provenance", "publish", "signing", "pixels", "pictures", "preview", "staging", "reproduce"),
    *("transform", "preflight", "upstream", "workspace", "job", "pipeline", "rollback", "new", "single"),
    *("demo", "cli", "__main__"),
)
ORDER = (*FLOOR, *LINE)
ALONE = {
    "localhub": {"errors"},
    "model": {"errors"},
    "hub": {"errors"},
}  # what stands further left is not theirs


def test_every_module_has_its_place() -> None:
    found = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__"} == set(ORDER)


def test_imports_go_to_the_left() -> None:
    imports = [(path, name) for path in sorted(PACKAGE.rglob("*.py")) for name in _imported(path)]
    assert len(imports) > 100
    wrong = [f"{path.relative_to(PACKAGE)} imports {name}" for path, name in imports if not _may(path, name)]
    assert not wrong


def _may(path: Path, name: str) -> bool:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if name in (own, "__version__"):
        return True
    allowed = ALONE.get(own, set(ORDER[: ORDER.index(own)]) - {"localhub"})
    return name in allowed or (own in ("demo", "cli") and name == "localhub")


def _imported(path: Path) -> Iterator[str]:
    """Modules and packages of ours, right below ``hubpublish``, that a file imports anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "hubpublish":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hubpublish."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (each.name.split(".")[1] for each in node.names if each.name.startswith("hubpublish."))
