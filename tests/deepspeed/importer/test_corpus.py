"""Every public config beside the checkout: all keys accounted for, and the same meaning to DeepSpeed after import and compile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import corpus, corpus_mistakes

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "corpus"


@pytest.fixture(scope="module")
def verdicts(deepspeed: corpus.DeepSpeed) -> list[corpus.Verdict]:
    if not FOLDER.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"the public configs are missing: {FOLDER} must lie beside the checkout")
        pytest.skip(f"no public configs at {FOLDER}")
    return corpus.run(FOLDER, deepspeed)


def test_each_file_means_the_same_or_is_refused_with_a_code(verdicts: list[corpus.Verdict]) -> None:
    assert [(v.name, v.detail) for v in verdicts if v.outcome == "neither"] == []
    refused = {v.name[:3]: v.detail.split()[0] for v in verdicts if v.outcome == "refused"}
    # not JSON, a template, a key twice
    template = ("147", "151", "161", "224", "225", "226", "227", "228", "229")
    assert refused == {"140": "ZC911", "320": "ZC911", "197": "ZC912", **dict.fromkeys(template, "ZC915")}
    assert sum(v.outcome == "same" for v in verdicts) == len(verdicts) - len(refused) > 300


def test_no_key_is_lost(verdicts: list[corpus.Verdict]) -> None:
    assert [(v.name, v.lost) for v in verdicts if v.lost] == []
    assert sum(len(v.imported.entries) for v in verdicts if v.imported) > 7000


def test_a_reason_for_everything_that_is_not_carried_over(verdicts: list[corpus.Verdict]) -> None:
    entries = [entry for v in verdicts if v.imported for entry in v.imported.entries]
    assert {entry.outcome for entry in entries} == {"expressed", "kept", "migrated", "refused"}
    assert [entry for entry in entries if entry.outcome in ("migrated", "refused") and not entry.code.startswith("ZC")] == []
    assert [entry for entry in entries if "\n" in entry.reason or not entry.reason.strip()] == []


def test_nothing_is_left_for_the_user_but_what_the_file_left_out(verdicts: list[corpus.Verdict]) -> None:
    assert {note.code for v in verdicts if v.imported for note in v.imported.notes} <= {"ZC640", "ZC657", "ZC671"}


@pytest.mark.parametrize(("mistake", "named", "code"), corpus_mistakes.named(), ids=[mistake for mistake, _, _ in corpus_mistakes.named()])
def test_a_real_mistake_is_named_with_its_fix(mistake: str, named: bool, code: str) -> None:
    assert named, code
