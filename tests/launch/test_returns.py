"""What a job's end becomes: which rank's error is the cause, what is shown."""

from __future__ import annotations

import json
import pickle
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode

from tests.saved import SAVED_PLAN
from zerocfg.confsource import conf_dir
from zerocfg.errors import ZerocfgError
from zerocfg.launch.job import NodeOutcome
from zerocfg.launch.local import LocalJob
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.results import RankResult, failed, read_results, succeeded, write_result
from zerocfg.launch.returns import JobFailed, job_return, same_command
from zerocfg.runtime.checkpoint_files import commit
from zerocfg.runtime.heartbeat import beat_file

Made = Callable[..., tuple[JobReturn, list[Any]]]
OK = NodeOutcome(0)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """made(outcome, *results) of a job of three ranks."""
    paths = JobPaths(tmp_path)
    paths.results.mkdir(parents=True)
    with initialize_config_dir(str(conf_dir()), version_base=None):
        config = GlobalHydra.instance().config_loader().load_configuration("zerocfg", ["+app.x=1"], run_mode=RunMode.RUN)
        saving = SimpleNamespace(enabled=True, resume="auto", directory="checkpoints")
        run: Any = SimpleNamespace(plan=SimpleNamespace(topology=SimpleNamespace(world_size=3), checkpoint=saving))
        job = PreparedJob(number=4, overrides=(), config=config, folder=tmp_path, run=run)

        def make(outcome: NodeOutcome | str, *results: RankResult, shown: bool = False) -> tuple[JobReturn, list[Any]]:
            for result in results:
                write_result(paths.result(result.rank), result)
            return job_return(job, paths, outcome, shown=shown)

        yield make


def error(rank: int, when: float, exception: Exception) -> RankResult:
    try:
        raise exception
    except Exception as raised:
        made = failed(rank, raised)
    return RankResult(rank=rank, ok=False, error=made.error, traceback=made.traceback, exception=made.exception, time=when)


def test_rank_0s_value_comes_back(made: Made) -> None:
    ret, warnings = made(OK, *(succeeded(rank, {"loss": 0.5}) for rank in range(3)))
    assert (ret.status, ret.return_value, warnings) == (JobStatus.COMPLETED, {"loss": 0.5}, [])
    assert ret.overrides == ["+app.x=1"]
    assert ret.cfg is not None
    assert ret.cfg.app.x == 1
    assert "hydra" not in ret.cfg
    assert ret.hydra_cfg is not None
    assert list(ret.hydra_cfg) == ["hydra"]


def test_asked_to_stop_when_all_ranks_were_at_their_end(made: Made) -> None:
    ret, _ = made(NodeOutcome(1, "SIGTERM"), *(succeeded(rank, 2.5) for rank in range(3)))
    assert (ret.status, ret.return_value) == (JobStatus.COMPLETED, 2.5)
    assert made(NodeOutcome(1), succeeded(0, 1))[0].status is JobStatus.FAILED


def test_the_first_error_in_time_is_the_cause(made: Made) -> None:
    ret, _ = made(NodeOutcome(1), error(0, 20.0, RuntimeError("connection closed by peer")), error(2, 10.0, ValueError("bad batch")))
    assert ret.status is JobStatus.FAILED
    with pytest.raises(JobFailed) as caught:
        _ = ret.return_value
    assert str(caught.value).startswith("job 4 failed: rank 2 of 3: ValueError: bad batch (1 more followed)\n")
    assert "rank_2.log" in caught.value.summary
    assert "raise exception\nValueError: bad batch\n" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_what_was_on_the_terminal_is_not_repeated(made: Made) -> None:
    for rank, repeated in ((0, False), (1, True)):
        ret, _ = made(NodeOutcome(1), error(rank, 1.0 - rank, ValueError(f"boom {rank}")), shown=True)
        problem = ret._return_value
        assert ("Traceback" in str(problem)) is repeated
        assert "Traceback" in problem.traceback


def test_a_users_mistake_has_no_traceback(made: Made) -> None:
    ret, _ = made(NodeOutcome(1), error(1, 1.0, ZerocfgError("model=none\n  try: model=gpt_tiny")))
    assert "Traceback" not in str(ret._return_value)
    assert "rank 1 of 3: model=none\n" in str(ret._return_value)
    assert str(ret._return_value).endswith("model=none\n  try: model=gpt_tiny\n")


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (NodeOutcome(1), "exit status 1; no word from rank 1, 2"),
        (NodeOutcome(-9), "ended by signal 9; no word from rank 1, 2"),
        (NodeOutcome(0), "exit status 0; no word from rank 1, 2"),
        (NodeOutcome(-15, "time limit"), "job 4 was stopped: time limit"),
        ("submitit says no", "submitit says no"),
    ],
)
def test_silent_ranks(made: Made, outcome: NodeOutcome | str, text: str) -> None:
    ret, _ = made(outcome, succeeded(0, 1))
    assert ret.status is JobStatus.FAILED
    assert text in str(ret._return_value)


def test_torchruns_last_words_are_shown_for_a_silent_rank(made: Made, tmp_path: Path) -> None:
    JobPaths(tmp_path).starter_log.write_text("\n".join(f"line {i}" for i in range(100)))
    ret, _ = made(NodeOutcome(1))
    assert str(ret._return_value).endswith("line 99")
    assert "line 59\n" not in str(ret._return_value)


def test_a_value_that_cannot_be_read_is_a_warning(made: Made) -> None:
    ret, warnings = made(OK, RankResult(rank=0, ok=True, value=b"nonsense"), succeeded(1, None), succeeded(2, None))
    assert (ret.status, ret.return_value) == (JobStatus.COMPLETED, None)
    assert [w.code for w in warnings] == ["ZC709"]


def test_job_failed_travels() -> None:
    problem = JobFailed("summary", "Traceback ...", shown=True)
    problem.__cause__ = ValueError("x")
    copy = pickle.loads(pickle.dumps(problem))
    assert (str(copy), copy.traceback, repr(copy.__cause__)) == ("summary", "Traceback ...", "ValueError('x')")


def test_an_exception_that_cannot_be_pickled_still_reports(tmp_path: Path) -> None:
    class Odd(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("no")

    result = failed(1, Odd("strange"))
    assert (result.exception, result.error.rpartition(".")[2]) == (b"", "Odd: strange")
    paths = JobPaths(tmp_path)
    paths.results.mkdir(parents=True)
    write_result(paths.result(1), result)
    assert read_results(paths) == {1: result}


def test_a_node_that_let_nothing_start(made: Made, tmp_path: Path) -> None:
    JobPaths(tmp_path).refusal("node2").write_text("on node2:\nerror[ZC712] offload.nvme_path=/nvme: it does not exist\n")
    ret, _ = made(NodeOutcome(1))
    assert str(ret._return_value) == "job 4 was not started\n\non node2:\nerror[ZC712] offload.nvme_path=/nvme: it does not exist"


def test_a_rank_that_aborts_by_itself(made: Made) -> None:
    """No word of NCCL's watchdog: it is the cause."""
    aborted = RankResult(rank=1, ok=False, error="ended by SIGABRT", traceback="free(): invalid pointer")
    ret, _ = made(NodeOutcome(1), aborted)
    assert str(ret._return_value).startswith("job 4 failed: rank 1 of 3: ended by SIGABRT\n")
    assert str(ret._return_value).endswith("free(): invalid pointer")


def test_the_echo_of_a_lost_rank_is_not_the_cause(made: Made) -> None:
    """The connection broke before the rank that broke it had said why."""
    echo = error(0, 1.0, RuntimeError("Connection closed by peer [127.0.0.1]:41872"))
    ret, _ = made(NodeOutcome(1), echo, error(2, 2.0, ValueError("unwell")))
    assert str(ret._return_value).startswith("job 4 failed: rank 2 of 3: ValueError: unwell (1 more followed)\n")


ECHO = RuntimeError("Connection closed by peer [127.0.0.1]:41872")


def test_a_rank_that_left_without_a_word(made: Made, tmp_path: Path) -> None:
    """os._exit, a library that ends the process: torchrun alone knows."""
    JobPaths(tmp_path).starter_log.write_text("  rank      : 2 (local_rank: 2)\n  exitcode  : 3 (pid: 5)\n")
    for ended in ((), (error(0, 1.0, ECHO),)):
        ret, _ = made(NodeOutcome(1), *ended)
        assert str(ret._return_value).startswith(f"job 4 failed: rank 2 of 3 ended with exit status 3 and no word\n  log: {tmp_path}")


def test_a_rank_that_was_through_before_the_others(made: Made, tmp_path: Path) -> None:
    beat_file(JobPaths(tmp_path).results, 1).write_text(json.dumps({"rank": 1, "step": 7, "end": "done"}))
    ret, _ = made(NodeOutcome(1), error(0, 1.0, ECHO), succeeded(1, None))
    assert str(ret._return_value).startswith("job 4 failed: rank 1 of 3 was through before the others, last seen in step 7\n")


def test_what_a_failed_job_would_go_on_from(made: Made, tmp_path: Path) -> None:
    draft = tmp_path / "checkpoints/.saving-global_step5"
    draft.mkdir(parents=True)
    (draft / "zerocfg.pt").touch()
    commit(draft, 5, {"plan": SAVED_PLAN}, keep_last=0)
    told = f"\n  checkpoint: {tmp_path}/checkpoints/global_step5\n  go on: the same command with hydra.sweep.dir="
    for outcome, *results in ((NodeOutcome(1), error(1, 1.0, ValueError("unwell"))), (NodeOutcome(-15, "Ctrl-C"), succeeded(1, None))):
        assert told in str(made(outcome, *results)[0]._return_value)
    # that is to be mended first
    assert told not in str(made(NodeOutcome(1), error(1, 1.0, ZerocfgError("error[ZC771] another model")))[0]._return_value)


@pytest.mark.parametrize("name", ["outputs/2026-01-31/09-30-00-000000", "my runs", "it's", 'a "b" $(x)', "x=1,2", "{a}"])
def test_the_command_that_goes_on_can_be_pasted(tmp_path: Path, name: str) -> None:
    job: Any = SimpleNamespace(config=SimpleNamespace(hydra=SimpleNamespace(sweep=SimpleNamespace(dir=name))))
    (word,) = shlex.split(same_command(job).removeprefix("the same command with "))
    assert OverridesParser.create().parse_override(word).value() == name


def test_a_folder_that_is_gone_or_full(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=4096))
    assert str(made("submitit's words")[0]._return_value).startswith(
        f"job 4 failed: it ended without an outcome: 4 KiB are free on the disk of its folder\n  folder: {tmp_path}\n"
    )
    monkeypatch.undo()
    shutil.rmtree(tmp_path)
    told = str(made("No such file")[0]._return_value)
    assert told == f"job 4 failed: it ended without an outcome: its folder is gone\n  folder: {tmp_path}\n\nNo such file"


def test_an_outcome_that_cannot_be_read() -> None:
    """submitit looks at its folder, which may be gone."""

    def exception() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/gone/submitit")

    job: Any = LocalJob.__new__(LocalJob)
    job._submitted = SimpleNamespace(exception=exception)
    assert job._outcome() == "No such file or directory: /gone/submitit"


def test_of_the_same_mistake_on_several_ranks_rank_0_tells(made: Made) -> None:
    """Its traceback is on the terminal, and is not shown again; which of them wrote its end first says nothing."""
    same = [error(rank, when, ValueError("no such column")) for rank, when in ((1, 1.0), (0, 2.0), (2, 3.0))]
    ret, _ = made(OK, *same, shown=True)
    problem = ret._return_value
    assert isinstance(problem, JobFailed)
    assert problem.summary.startswith("job 4 failed: rank 0 of 3: ValueError: no such column (2 more followed)\n")
    assert problem.shown
