"""A training script's model, traced where the script calls run.build; and what is made of the profile."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from zerocfg.deepspeed.importer.text import override
from zerocfg.profile.failure import CannotTrace
from zerocfg.profile.script import trace_script

ROOT = Path(__file__).parents[2]
TINY = ("model=gpt_tiny", "hardware=a100x4")
OWN = """
import hydra
import torch
from torch import nn

import zerocfg


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(96, 96, bias=False).requires_grad_(False)
        self.down, self.up = nn.Linear(96, 4, bias=False), nn.Linear(4, 96, bias=False)

    def forward(self, x):
        return x + self.frozen(x) + self.up(self.down(x))


class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.out = nn.Linear(96, 1)

    def forward(self, x, wanted):
        for layer in self.layers:
            x = layer(x)
        return nn.functional.mse_loss(self.out(x).squeeze(-1), wanted)


def batch(samples):
    return torch.zeros(samples, 10, 96), torch.zeros(samples, 10)


@hydra.main(version_base=None, config_path="CONF", config_name="zerocfg")
def main(cfg):
    run = zerocfg.current_run()
    if cfg.train.steps == 1:
        return
    if cfg.train.steps == 2:
        raise RuntimeError("a mistake of the script")
    run.initialize(run.build(Net, 3))
    raise AssertionError("the script ends at run.build")


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    script = tmp_path / "own_script.py"
    script.write_text(OWN.replace("CONF", str(ROOT / "conf")), encoding="utf-8")
    return script


def test_the_examples_model_agrees_with_its_dims(cli: Any, tmp_path: Path) -> None:
    """The same run by its profile and by its dims: memory within 1 %, speed within 5 % (the loss)."""
    file = tmp_path / "gpt.json"
    base = ("model=gpt2_124m", "hardware=a100x4", "parallelism=zero2", "batch.micro_batch_size=8")
    status, _, err = cli("profile", str(ROOT / "train.py"), *base, "--out", str(file))
    assert (status, f"give model.profile={file}" in err) == (0, True)
    by_dims = json.loads(cli("memory", *base, "--json")[1])
    by_profile = json.loads(cli("memory", *base, f"model.profile={file}", "--json")[1])
    assert (by_dims["activations"], by_profile["activations"]) == ("closed form", "traced")
    assert by_profile["peak_allocated_bytes"] == pytest.approx(by_dims["peak_allocated_bytes"], rel=0.01)
    plans = [json.loads(cli("plan", *base, *more, "--json")[1])[0] for more in ((), (f"model.profile={file}",))]
    assert plans[1]["tokens_per_s_per_gpu"] == pytest.approx(plans[0]["tokens_per_s_per_gpu"], rel=0.05)


def test_a_model_without_dims_is_planned_by_its_profile(cli: Any, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    alone = ("model=none", "hardware=a100x4")
    status, out, err = cli("profile", str(own), *alone, "--input", "own_script:batch", "--out", "own.json")
    assert status == 0, err
    assert "repeated block        3 x Layer" in out
    assert "frozen" in out.splitlines()[0]
    status, out, err = cli("plan", *alone, "model.profile=own.json", "batch.global_batch_size=64")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "the model, 30k parameters, sequences of 10, on 4 x A100-SXM4-80GB"
    status, out, _ = cli("explain", "zero_optimization.stage3_param_persistence_threshold", *alone, "model.profile=own.json")
    assert "= 1  # resolve.zero: the largest parameter that is no matrix, 1: norms and biases stay whole" in out
    # parallelism=auto compiles with it, and the run's own plan keeps it
    status, out, _ = cli("compile", *alone, "model.profile=own.json", "parallelism=auto", "--out", "job", "--json")
    assert status == 0
    assert json.loads(Path("job/compiled/plan.json").read_text(encoding="utf-8"))["profile"]["tokens"] == 10


def test_a_script_that_builds_nothing(own: Path) -> None:
    with pytest.raises(CannotTrace, match=r"ended without calling run\.build"):
        trace_script(own, [*TINY, "train.steps=1"])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("SCRIPT", "model=none"), 1, "says nothing of its inputs: --input"),
        (("SCRIPT", "model=gpt_tiny", "train.steps=2"), 1, "the script ended before it built its model"),
        (("SCRIPT", "model=gpt_tinny"), 1, "the script ended before it built its model"),
        (("SCRIPT", "--dtype", "fp32"), 2, "precision=fp32, as the script is run"),
        (("nowhere.py",), 2, "there is no nowhere.py"),
        (("own_script:Net", "model=none"), 2, "overrides go with a script"),
        (("SCRIPT", "--input", "own_script:nothing"), 2, "own_script:nothing"),
        (("SCRIPT", "hardware=a100x4", "--out", "no/such/folder.json"), 1, "--out no/such/folder.json: No such file"),
    ],
)
def test_what_cannot_be_traced(
    cli: Any, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], status: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(own) if word == "SCRIPT" else word for word in words]
    if "--input" not in given and "--out" in given:
        given += ["--input", "own_script:batch"]
    got, _, err = cli("profile", *given)
    assert (got, said in err) == (status, True), err


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("model=gpt_tiny", "model.sequence_length=128"), "has samples of 256 tokens, and model.sequence_length is 128"),
        (("model=gpt_tiny", "precision=fp32"), "was traced in bf16, and the run trains in fp32"),
        (("model=gpt2_124m", "model.sequence_length=256"), "has 859k parameters, and the dims of gpt2_124m make 124M"),
    ],
)
def test_a_profile_of_another_run(cli: Any, tmp_path: Path, overrides: tuple[str, ...], said: str) -> None:
    """ZC504."""
    file = tmp_path / "tiny.json"
    assert cli("profile", str(ROOT / "train.py"), *TINY, "--out", str(file))[0] == 0
    status, _, err = cli("check", "hardware=a100x4", *overrides, f"model.profile={file}")
    assert (status, f"error[ZC504] model.profile {said}" in err) == (1, True), err
    assert "decided by: command line: model.profile=" in err
    status, _, err = cli("plan", "hardware=a100x4", *overrides, f"model.profile={file}")
    assert (status, "error[ZC504]" in err) == (1, True)
    # in fp16 it holds: the same bytes
    assert cli("check", *TINY, "precision=fp16", f"model.profile={file}")[0] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[1]", "is no profile: it has no key zerocfg_profile"),
        ("\udcff", "is not"),
    ],
)
def test_a_file_that_is_no_profile(cli: Any, tmp_path: Path, content: str | None, said: str) -> None:
    """ZC175."""
    file = tmp_path / "p.json"
    if content is not None:
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
    for command in ("check", "plan", "memory"):
        status, _, err = cli(command, *TINY, f"model.profile={file}")
        assert (status, "error[ZC175] model.profile=" in err, said in err) == (1, True, True), err
        assert "try: zerocfg profile train.py --out" in err


def test_a_model_of_other_inputs_is_told_in_words(process: Any, own: Path) -> None:
    """Hydra would print the traceback of what it catches, and torch logs it. The folder for temporary files may have any name."""
    temporary = own.parent / "it's a"
    temporary.mkdir()
    done = process("profile", str(own), "model=gpt_tiny", "hardware=a100x4", cwd=own.parent, TMPDIR=str(temporary))
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith(
        f"{own} cannot be traced: a forward and backward pass on tensors without data failed at own_script.py:16: RuntimeError"
    )
    assert second == "  it was given token ids of gpt_tiny: --input module:function gives what it takes"


def test_a_profile_of_any_name_can_be_pasted(cli: Any, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "it's a $1.json"
    _, _, err = cli("check", "hardware=a100x4", override("model.profile", name))
    (hint,) = re.findall(r"try: (zerocfg profile .*), or module", err)
    assert shlex.split(hint)[-1] == name
    alone = ("model=none", "hardware=a100x4")
    _, _, err = cli("profile", str(own), *alone, "--input", "own_script:batch", "--out", name)
    (word,) = re.findall("give (.*) to zerocfg plan", err)
    assert cli("check", *alone, *shlex.split(word))[0] == 0
