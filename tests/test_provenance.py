"""provenance.json: an in-toto statement with SLSA provenance, by the published schemas of both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement

from hubpublish import provenance
from hubpublish.errors import RecipeError
from hubpublish.layout import OWN_FILES, PROVENANCE, REPORT
from hubpublish.report import FileRecord
from tests.publication import SOURCE, Publication, sha256
from tests.reports import COMMIT, distance, recipe_of, report_of, variant_report, verification

_URI = re.compile(r"[a-z][a-z0-9+.-]*:[!-~]+")  # RFC 3986 as far as it matters: a scheme, no space, ASCII


def statement(**changes: Any) -> dict[str, Any]:
    found = json.loads(provenance.render(report_of(**changes)))
    assert isinstance(found, dict)
    return found


def test_the_statement_is_valid_by_in_totos_own_library() -> None:
    text = provenance.render(report_of())
    parsed = json_format.Parse(text, statement_pb2.Statement())  # fails for a field that it does not know
    Statement.copy_from_pb(parsed).validate()
    assert parsed.type == "https://in-toto.io/Statement/v1"
    assert parsed.predicate_type == "https://slsa.dev/provenance/v1"


def test_the_predicate_is_slsa_provenance_and_nothing_else() -> None:
    predicate = statement()["predicate"]
    parsed = json_format.ParseDict(predicate, provenance_pb2.Provenance())
    definition, details = parsed.build_definition, parsed.run_details
    # What the specification requires for level 1.
    assert _URI.fullmatch(definition.build_type)
    assert _URI.fullmatch(details.builder.id)
    assert len(definition.external_parameters) > 0
    for descriptor in (*definition.resolved_dependencies, *details.byproducts):
        ResourceDescriptor.copy_from_pb(descriptor).validate()
        assert re.fullmatch(r"[0-9a-f]{64}", descriptor.digest["sha256"])
        assert not descriptor.uri or _URI.fullmatch(descriptor.uri)
    # Of the standard, no name holds an underscore; a name of ours begins with one's own word and one.
    names = {*predicate, *predicate["buildDefinition"], *predicate["runDetails"]}
    assert not any("_" in name for name in names)
    assert all(name.startswith("hubpublish_") for each in details.byproducts for name in each.annotations)


def test_subjects_are_the_models_and_their_data() -> None:
    files = (
        FileRecord(path="onnx/model.onnx", sha256="1" * 64, size=1),
        FileRecord(path="onnx/model.onnx_data", sha256="2" * 64, size=2),
    )
    variant = variant_report().model_copy(update={"output": files})
    found = json.loads(provenance.render(report_of(variant)))["subject"]
    assert found == [{"name": file.path, "digest": {"sha256": file.sha256}} for file in files]


def test_dependencies_are_all_files_of_the_source_by_their_public_address() -> None:
    shared = FileRecord(path="onnx/weights #1.data", sha256="3" * 64, size=3)
    variants = [
        variant_report(path).model_copy(
            update={"source": (FileRecord(path=path, sha256=digit * 64, size=1), shared)}
        )
        for path, digit in (("onnx/model.onnx", "1"), ("onnx/model_fp16.onnx", "2"))
    ]
    report = report_of(*variants)
    found = json.loads(provenance.render(report))["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [each["name"] for each in found] == [
        *("onnx/model.onnx", "onnx/weights #1.data", "onnx/model_fp16.onnx", "config.json")
    ]
    assert len({each["uri"] for each in found}) == len(found)
    for each in found:
        assert unquote(each["uri"]) == f"https://huggingface.co/{SOURCE}/resolve/{COMMIT}/{each['name']}"
        assert "#" not in each["uri"]


def test_the_recipe_and_the_versions_are_there() -> None:
    report = report_of()
    predicate = json.loads(provenance.render(report))["predicate"]
    assert predicate["buildDefinition"]["externalParameters"] == {"recipe": report.recipe}
    assert predicate["runDetails"]["builder"]["version"] == report.versions


def test_the_verification_hangs_on_the_report() -> None:
    proof = verification(
        held="exact_unoptimized", gate="exact_unoptimized", default=distance(3, 0.25), own=distance(9, 0.5)
    )
    report = report_of(variant_report(proof=proof))
    (found,) = json.loads(provenance.render(report))["predicate"]["runDetails"]["byproducts"]
    assert (found["name"], found["digest"]["sha256"]) == (REPORT, sha256(report.to_json().encode()))
    (verified,) = found["annotations"]["hubpublish_verification"]
    assert verified["held"] == "exact_unoptimized"
    assert verified["passed"] is True
    assert verified["runtime"] == "onnxruntime 1.99.0"
    assert verified["levels"] == [
        {"level": "disabled", "inputs": 1, "values": 1500, "differing": 0, "max_abs": 0.0},
        {"level": "default", "inputs": 1, "values": 1500, "differing": 3, "max_abs": 0.25},
    ]


@pytest.mark.parametrize("largest", [float("inf"), float("nan")])
def test_it_is_json_whatever_was_measured(largest: float) -> None:
    proof = verification(gate={"max_abs": 1.0}, held="tolerance", default=distance(1, largest))
    text = provenance.render(report_of(variant_report(proof=proof)))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(text, parse_constant=refuse)


def test_it_holds_only_what_repeats(publication: Publication) -> None:
    publication.seed()
    publication.run(dry_run=True)
    text = (publication.staged / PROVENANCE).read_text("utf-8")
    machine = [str(publication.folder), publication.hub.endpoint, "127.0.0.1", str(Path.home())]
    assert not any(word in text for word in machine)
    assert not re.search(r"\d\d:\d\d:\d\d|startedOn|finishedOn|invocationId", text)


def test_a_publication_holds_it_and_its_manifest_names_it(publication: Publication) -> None:
    publication.seed()
    publication.run()
    files = publication.published()
    assert PROVENANCE in OWN_FILES
    manifest = json.loads(files["manifest.json"])
    assert manifest["files"][PROVENANCE] == sha256(files[PROVENANCE])
    found = json.loads(files[PROVENANCE])
    for subject in found["subject"]:
        assert sha256(files[subject["name"]]) == subject["digest"]["sha256"]
    (report,) = found["predicate"]["runDetails"]["byproducts"]
    assert sha256(files[REPORT]) == report["digest"]["sha256"]


def test_what_actions_attest_takes() -> None:
    report = report_of()
    parts = provenance.for_attesting(report)
    made = json.loads(provenance.render(report))
    assert json.loads(parts["predicate.json"]) == made["predicate"]
    (subject,) = made["subject"]
    assert parts["checksums.txt"] == f"{subject['digest']['sha256']}  {subject['name']}\n"


def test_a_recipe_cannot_publish_another_file_in_its_place() -> None:
    with pytest.raises(RecipeError, match="in the place of"):
        recipe_of(source={"copy": ["Provenance.json"]})
