"""zerocfg launch: what is found before a start, and what a dry run leaves. Real ranks are in tests/integration/test_plain_scripts.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUN = ("hardware=cpu", "hardware.gpus_per_node=2", "precision=fp32", "model=none", "parallelism=zero2", "batch.micro_batch_size=4")
NOTHING = "nothing was started\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('must not run')\n")
    return path


def codes(err: str) -> list[str]:
    return [line.partition("]")[0].partition("[")[2] for line in err.splitlines() if line.startswith(("error[", "warning[", "note["))]


@pytest.mark.parametrize(
    "words",
    [
        ("launch",),
        ("launch", *RUN),
        ("launch", "--"),
        ("launch", "--target", "cloud", "--", "train.py"),
        ("launch", "--nope", "--", "train.py"),
    ],
)
def test_wrong_usage(cli: Any, script: Path, words: tuple[str, ...]) -> None:
    status, out, err = cli(*words)
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    assert err


def test_options_of_the_script_are_not_zerocfgs(cli: Any, script: Path) -> None:
    status, out, err = cli(
        "launch", *RUN, "hydra.launcher.dry_run=true", "--out", "job", "--", "train.py", "--help", "--out", "x", "--", "-h"
    )
    assert (status, out) == (0, "")
    assert codes(err) == ["ZC754"]
    assert " -m zerocfg.launch.plain_rank train.py --help --out x -- -h\n" in Path("job/compiled/launch.sh").read_text()


PROGRAMS = [
    (("gone.py",), "there is no gone.py in "),
    (("python", "train.py"), "python is no script: zerocfg starts the ranks itself"),
    (("torchrun", "train.py"), "torchrun is no script: zerocfg starts the ranks itself"),
    (("--epochs", "3"), "--epochs is no script"),
    (("-m",), "-m needs the name of a module"),
    (("-m", "--epochs"), "-m needs the name of a module"),
    (("run.sh",), "run.sh is not a Python script"),
    ((".",), ". is not a Python script"),
]


@pytest.mark.parametrize(("words", "message"), PROGRAMS, ids=[" ".join(words) for words, _ in PROGRAMS])
def test_no_script_to_run(cli: Any, script: Path, words: tuple[str, ...], message: str) -> None:
    Path(script.parent / "run.sh").touch()
    status, out, err = cli("launch", *RUN, "--", *words)
    assert (status, out) == (1, "")
    assert codes(err) == ["ZC750"]
    assert err.startswith(f"error[ZC750] {message}")
    assert err.endswith(NOTHING)


@pytest.mark.parametrize("word", ["--local_rank=0", "--local-rank", "--local_rank"])
def test_a_local_rank_is_refused(cli: Any, script: Path, word: str) -> None:
    name = word.partition("=")[0]
    assert cli("launch", *RUN, "--", "train.py", "--cfg", "{ds_config}", word) == (
        1,
        "",
        f"error[ZC751] {word}: each rank has its own, in the environment: LOCAL_RANK\n"
        "  torchrun sets it, and adds no argument\n"
        f"  try: leave {name} out; in the script: int(os.environ['LOCAL_RANK'])\n\n1 error\n{NOTHING}",
    )


def test_all_problems_of_the_config_and_the_line_come_at_once(cli: Any, script: Path) -> None:
    status, _, err = cli("launch", "hardware=cpu", "parallelism=zero9", "batch.global_batch_size=0", "--", "train.py", "--local_rank=0")
    assert status == 1
    assert codes(err) == ["ZC110", "ZC202", "ZC751", "ZC754"]
    assert not Path("outputs").exists()


@pytest.mark.parametrize("option", ["--deepspeed", "--deepspeed_config"])
def test_another_json_is_refused(cli: Any, script: Path, option: str) -> None:
    status, _, err = cli("launch", *RUN, "--", "train.py", option, "my ds.json")
    assert (status, codes(err)) == (1, ["ZC753"])
    assert f"  try: {option} {{ds_config}}; `zerocfg import 'my ds.json'` turns the file into overrides\n" in err


def test_a_script_that_nothing_tells_of_the_json_is_noted(cli: Any, script: Path) -> None:
    dry = (*RUN, "hydra.launcher.dry_run=true", "--out", "job", "--", "train.py")
    assert codes(cli("launch", *dry)[2]) == ["ZC754"]
    assert codes(cli("launch", *dry, "--config={ds_config}")[2]) == []
    script.write_text("import os\nprint(os.environ['ZEROCFG_DS_CONFIG'])\n")
    assert codes(cli("launch", *dry)[2]) == []


TRAINER = ("--deepspeed", "{ds_config}", "--per_device_train_batch_size", "4", "--learning_rate=3e-4", "--weight-decay", "0.01")
SAYS = [
    # given: the Trainer would refuse it
    (("--per_device_train_batch_size", "16"), "error", "train_micro_batch_size_per_gpu", "--per_device_train_batch_size 4"),
    (("--gradient_accumulation_steps=2",), "error", "gradient_accumulation_steps", "--gradient_accumulation_steps 1"),
    (("--learning-rate", "1e-5"), "error", "optimizer.params.lr", "--learning_rate 0.0003 after --, or optimizer.lr=1e-05 before it"),
    (("--weight_decay", "0"), "error", "optimizer.params.weight_decay", "--weight_decay 0.01"),
    (
        ("--max_grad_norm", "0.5"),
        "error",
        "gradient_clipping",
        "--max_grad_norm 1.0 after --, or optimizer.gradient_clipping=0.5 before it",
    ),
    (
        ("--adam_beta2", "0.95"),
        "error",
        "optimizer.params.betas",
        "--adam_beta1 0.9 --adam_beta2 0.999 after --, or optimizer.betas=[0.9,0.95]",
    ),
    (("--bf16",), "error", "bf16.enabled", "leave it out after --, or precision=bf16 before it"),
    (("--fp16", "True"), "error", "fp16.enabled", "leave it out after --, or precision=fp16 before it"),
]


def dry(cli: Any, overrides: tuple[str, ...], words: tuple[str, ...]) -> tuple[int, str]:
    status, _, err = cli("launch", *RUN, *overrides, "hydra.launcher.dry_run=true", "--out", "job", "--", "train.py", *words)
    return status, err


def test_a_trainer_that_agrees_with_the_json(cli: Any, script: Path) -> None:
    assert dry(cli, (), TRAINER) == (0, "dry run, nothing started: {}\n".format(Path("job/compiled/launch.sh").absolute()))


@pytest.mark.parametrize(("words", "severity", "path", "hint"), SAYS, ids=[path for _, _, path, _ in SAYS])
def test_an_argument_of_the_trainer_that_the_json_contradicts(
    cli: Any, script: Path, words: tuple[str, ...], severity: str, path: str, hint: str
) -> None:
    status, err = dry(cli, (), (*TRAINER, *words))
    assert status == 1
    first, refuses, remedy, *_ = err.splitlines()
    assert first.startswith(f"{severity}[ZC752] --")
    assert f" is given to the Trainer, the compiled JSON says {path}=" in first
    assert (refuses, codes(err)) == ("  the Trainer refuses the pair", ["ZC752"])
    assert remedy.startswith(f"  try: {hint}")
    assert not Path("job").exists()


def test_a_default_of_the_trainer_that_the_json_contradicts_is_a_warning(cli: Any, script: Path) -> None:
    status, err = dry(cli, ("precision=bf16", "optimizer.eps=1e-6"), ("--deepspeed={ds_config}",))
    assert status == 0
    warned = [line.partition("says ")[2].partition("=")[0] for line in err.splitlines() if line.startswith("warning[ZC752]")]
    assert warned == [
        "bf16.enabled",
        "optimizer.params.eps",
        "optimizer.params.lr",
        "optimizer.params.weight_decay",
        "train_micro_batch_size_per_gpu",
    ]
    assert "  try: --bf16 after --, or precision=fp32 before it\n" in err


def test_the_same_names_in_a_script_of_another_kind_are_its_own(cli: Any, script: Path) -> None:
    words = ("--deepspeed", "--deepspeed_config", "{ds_config}", "--learning_rate", "7", "--weight_decay", "none", "--bf16")
    assert codes(dry(cli, (), words)[1]) == []


def test_an_argument_that_decides_nothing(cli: Any, script: Path) -> None:
    status, err = dry(cli, ("scheduler=none", "optimizer=none"), (*TRAINER, "--max_grad_norm", "1.0"))
    assert (status, codes(err)) == (0, [])  # the Trainer makes the optimizer itself


def test_the_folder_cannot_be_written(cli: Any, script: Path) -> None:
    Path("file").touch()
    status, _, err = cli("launch", *RUN, "--out", "file/job", "--", "train.py", "{ds_config}")
    assert (status, codes(err)) == (1, ["ZC755"])
    assert f"{Path('file').absolute()} is not a folder" in err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("hydra/launcher=basic", "ZC756] hydra/launcher is none of zerocfg's launchers: BasicLauncher"),
        ("hydra.launcher.timeout_min=${nope}", "ZC715] hydra.launcher cannot be resolved: "),
        ("+hydra.launcher.partition=gpu", "ZC715] hydra.launcher.partition: hydra/launcher=zerocfg_local has no such option"),
        ("hydra.launcher.timeout_min=2h", "ZC715] hydra.launcher.timeout_min=2h is text, not a number"),
    ],
)
def test_another_launcher_or_a_wrong_option(cli: Any, script: Path, override: str, message: str) -> None:
    status, _, err = cli("launch", *RUN, override, "--", "train.py", "{ds_config}")
    assert (status, len(codes(err))) == (1, 1)
    assert message in err


def test_two_nodes_here_and_no_slurm(cli: Any, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    status, _, err = cli("launch", "--target", "slurm", *RUN, "hardware=auto", "--", "train.py", "{ds_config}")
    assert (status, codes(err)) == (1, ["ZC724"])  # and not once more: the partition's nodes are not known
    line = (*RUN, "hardware.num_nodes=2", "--", "train.py", "{ds_config}")
    status, _, err = cli("launch", *line)
    assert (status, codes(err)) == (1, ["ZC702"])
    status, _, err = cli("launch", "--target", "slurm", *line)
    assert (status, codes(err)) == (1, ["ZC724"])
    assert not Path("outputs").exists()


def test_a_rank_cannot_launch(cli: Any, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert codes(cli("launch", *RUN, "--", "train.py", "{ds_config}")[2]) == ["ZC704"]


def test_a_dry_run_writes_what_would_run(process: Callable[..., subprocess.CompletedProcess[str]], script: Path) -> None:
    hostile = 'it\'s $(touch PWNED) `touch PWNED` "q" *'
    done = process("launch", *RUN, "hydra.launcher.dry_run=true", "--", "train.py", hostile, "{ds_config}", "")
    assert (done.returncode, done.stdout) == (0, "")
    (job,) = (script.parent / "outputs").glob("*/*")
    assert done.stderr == f"dry run, nothing started: {job}/compiled/launch.sh\n"
    assert sorted(path.name for path in job.iterdir()) == [".hydra", ".zerocfg", "compiled"]
    compiled = process("compile", *RUN, "--json")
    assert json.loads((job / "compiled" / "ds_config.json").read_text()) == json.loads(compiled.stdout)["deepspeed"]
    text = (job / "compiled" / "launch.sh").read_text()
    assert text.endswith("""-m zerocfg.launch.plain_rank train.py 'it'"'"'s $(touch PWNED) `touch PWNED` "q" *' '{ds_config}' ''\n""")
    assert os.access(job / "compiled" / "launch.sh", os.X_OK)
    assert not (script.parent / "PWNED").exists()
    saved = (job / ".hydra" / "overrides.yaml").read_text().splitlines()
    assert saved == [f"- {override}" for override in RUN]


def test_a_dry_run_for_slurm_prints_the_script(process: Callable[..., subprocess.CompletedProcess[str]], script: Path) -> None:
    line = ("launch", "--target", "slurm", "--out", "job", *RUN, "hydra.launcher.dry_run=true", "--", "train.py", "{ds_config}")
    done = process(*line, PATH="/nowhere")
    assert done.returncode == 0, done.stderr
    job = script.parent / "job"
    assert done.stdout == (job / "slurm" / "job_0.sh").read_text()
    assert "#SBATCH --job-name=train\n" in done.stdout
    assert "compiled/launch.sh" in done.stdout.splitlines()[-1]
    assert (job / "compiled" / "launch.sh").read_text().endswith(" -m zerocfg.launch.plain_rank train.py '{ds_config}'\n")
