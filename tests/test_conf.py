"""The YAML that ships: every option composes, loads without a problem, and says what its sources say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from zerocfg.compiler import examine
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import Severity
from zerocfg.facts import Detected, ModelFacts
from zerocfg.gpus import gpu_facts
from zerocfg.planner import decide
from zerocfg.schema import FREE, GROUPS, SECTIONS
from zerocfg.schema.load import load
from zerocfg.schema.types import DType, OffloadDevice

CONF = Path(__file__).resolve().parents[1] / "conf"
OPTIONS = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml"))
LEFT_OPEN = [
    ("container", "apptainer", "image"),
    ("container", "pyxis", "image"),
    ("offload", "all_nvme", "nvme_path"),
    ("offload", "optimizer_nvme", "nvme_path"),
]
WANTED = {
    "hardware": "auto cpu a100x4 a100x8 a100_40gb_x8 v100x4 h100x8 h200x2 h200x4 h200x8 b200x8 l40s_x4 a10_x4 rtx4090_x2",
    "parallelism": "ddp zero1 zero2 zero3 zeropp auto",
    "precision": "fp32 tf32 fp16 bf16 bf16_lowmem",
    "offload": "none optimizer all optimizer_nvme all_nvme auto",
    "activation_checkpointing": "none full partitioned auto",
    "batch": "default",
    "model": "none gpt_tiny gpt2_124m gpt_1b3 llama2_7b llama2_13b llama3_8b llama3_70b",
    "optimizer": "adamw adam lion adagrad lamb muon none",
    "scheduler": "none warmup_lr warmup_decay warmup_cosine one_cycle",
    "container": "none docker apptainer pyxis",
    "checkpoint": "none steps minutes on_stop",
}


@contextmanager
def composer(folder: Path) -> Iterator[None]:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base="1.3"):
        yield


def composed(overrides: Sequence[str] = (), folder: Path = CONF, name: str = "zerocfg", hydra: bool = False) -> DictConfig:
    with composer(folder):
        return compose(name, list(overrides), return_hydra_config=hydra)


def container(overrides: Sequence[str] = (), **where: Any) -> dict[str, Any]:
    plain = OmegaConf.to_container(composed(overrides, **where), resolve=True)
    assert isinstance(plain, dict)
    return plain  # type: ignore[return-value]


def test_the_options_are_those_that_the_documentation_promises() -> None:
    found: dict[str, set[str]] = {}
    for group, option in OPTIONS:
        found.setdefault(group, set()).add(option)
    assert found == {group: set(names.split()) for group, names in WANTED.items()}
    assert set(found) == set(GROUPS)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_an_option_composes_and_loads(group: str, option: str) -> None:
    plain = container([f"{group}={option}"])
    run, problems = load(plain)
    assert problems == []
    assert getattr(run, group).name == option
    assert {k for k in plain if k not in GROUPS and k not in SECTIONS and k not in FREE} == set()


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_an_option_compiles(group: str, option: str) -> None:
    overrides = [f"{group}={option}"] + ([] if group == "hardware" else ["hardware=a100x4"])
    if option == "v100x4":
        overrides.append("precision=fp16")
    if option.startswith("llama") and option != "llama2_7b":
        overrides += ["activation_checkpointing=full"] + (["hardware.num_nodes=16"] if option == "llama3_70b" else [])
    machine = Detected(cpus=2, host_memory_bytes=8 * 2**30, numa_nodes=1, reason="no NVIDIA driver is installed")
    outcome = examine(container(overrides), detect=lambda: machine, decide=decide)
    errors = [(d.code, d.path) for d in outcome.diagnostics if d.severity is Severity.ERROR]
    left = next((f"{g}.{key}" for g, o, key in LEFT_OPEN if (g, o) == (group, option)), "")
    assert errors == ([("ZC740" if group == "container" else "ZC305", left)] if left else [])
    assert (outcome.run is None) is bool(errors)


def test_what_an_option_leaves_to_the_user() -> None:
    """OmegaConf lets ??? of a file lose against the schema's default, so the file is asked; the check of offload asks for it."""
    left = [
        (group, option, key) for group, option in OPTIONS for key in OmegaConf.missing_keys(OmegaConf.load(CONF / group / f"{option}.yaml"))
    ]
    assert left == LEFT_OPEN


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_an_option_survives_both_yaml_readers(group: str, option: str) -> None:
    """YAML 1.1 turns on, no, 012 and 1:30 into something else, and reads 1e-8 as text; Hydra's reader does not. What we ship
    must not depend on it, nor may an option's name be a word that the override grammar takes for a value."""
    path = CONF / group / f"{option}.yaml"
    ours = OmegaConf.to_container(OmegaConf.load(path))
    theirs = yaml.safe_load(path.read_text())
    assert isinstance(ours, dict)
    for key, value in ours.items():
        if isinstance(value, float):
            assert float(theirs[key]) == value
        else:
            assert theirs[key] == value
            assert type(theirs[key]) is type(value)
    assert option.lower() not in {"null", "true", "false", "on", "off", "yes", "no", "y", "n", "nan", "inf"}


def test_the_default_job() -> None:
    plain = container()
    names = {group: plain[group]["name"] for group in GROUPS}
    assert names == {
        "hardware": "auto",
        "parallelism": "zero3",
        "precision": "bf16",
        "offload": "none",
        "activation_checkpointing": "none",
        "batch": "default",
        "model": "gpt_tiny",
        "optimizer": "adamw",
        "scheduler": "none",
        "checkpoint": "none",
        "container": "none",
    }
    assert plain["deepspeed"] == {}
    assert plain["env"] == {}


@pytest.mark.parametrize("option", [o for g, o in OPTIONS if g == "hardware" and o not in ("auto", "cpu")])
def test_hardware_agrees_with_the_table_of_gpus(option: str) -> None:
    hardware = container([f"hardware={option}"])["hardware"]
    sheet = gpu_facts(hardware["gpu"])
    assert sheet is not None
    assert sheet.gpu == hardware["gpu"]
    assert hardware["memory_bytes"] == sheet.memory_bytes
    assert hardware["compute_capability"] == "{}.{}".format(*sheet.compute_capability)
    for key in ("fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "memory_bandwidth_gbps", "pcie_gbps"):
        assert hardware[key] == getattr(sheet, key), key
    link = hardware["link"].value
    assert hardware["link_gbps"] == sheet.link_gbps(link)
    assert hardware["p2p"] is (sheet.p2p or link != "pcie")
    known_otherwise = {"network_interface", "num_nodes", "cpus_per_node"}  # cores: a share for each GPU
    assert [k for k, v in hardware.items() if v is None and k not in known_otherwise] == []


@pytest.mark.parametrize(
    ("option", "parameters"),
    [
        ("gpt_tiny", 858_880),
        ("gpt2_124m", 124_439_808),
        ("gpt_1b3", 1_315_819_520),
        ("llama2_7b", 6_738_415_616),
        ("llama2_13b", 13_015_864_320),
        ("llama3_8b", 8_030_261_248),
        ("llama3_70b", 70_553_706_496),
    ],
)
def test_models_have_their_published_size(option: str, parameters: int) -> None:
    run, problems = load(container([f"model={option}"]))
    m = run.model
    assert problems == []
    assert m.hidden_size
    assert m.num_attention_heads
    facts = ModelFacts(
        name=m.name,
        num_hidden_layers=int(m.num_hidden_layers or 0),
        hidden_size=int(m.hidden_size),
        num_attention_heads=int(m.num_attention_heads),
        num_key_value_heads=int(m.num_key_value_heads or m.num_attention_heads),
        head_dim=int(m.hidden_size) // int(m.num_attention_heads),
        intermediate_size=int(m.intermediate_size or 4 * m.hidden_size),
        vocab_size=int(m.vocab_size or 0),
        tie_word_embeddings=m.tie_word_embeddings,
        sequence_length=int(m.sequence_length or 0),
        mlp=m.mlp.value,
        norm=m.norm.value,
        positions=m.positions.value,
        bias=m.bias,
    )
    assert facts.num_parameters == parameters


NUMBERS = [("optimizer.lr", "2e-5", 2e-5), ("optimizer.eps", "1e-8", 1e-8), ("parallelism.reduce_bucket_size", "5e8", 500_000_000)]


@pytest.mark.parametrize(("path", "written", "number"), NUMBERS)
def test_numbers_from_the_command_line(path: str, written: str, number: float) -> None:
    run, problems = load(container([f"{path}={written}"]))
    group, key = path.split(".")
    value = getattr(getattr(run, group), key)
    assert problems == []
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize(("path", "written", "number"), NUMBERS)
def test_numbers_from_yaml(path: str, written: str, number: float, tmp_path: Path) -> None:
    group, key = path.split(".")
    (tmp_path / "config.yaml").write_text(f"defaults: [zerocfg, _self_]\n{group}:\n  {key}: {written}\n")
    run, problems = load(container(folder=tmp_path, name="config"))
    value = getattr(getattr(run, group), key)
    assert problems == []
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.lr=fast",
        "parallelism.stage=two",
        "hardware.p2p=maybe",
        "precision.dtype=float8",
        "offload.optimizer=disk",
        "optimizer.learning_rate=1",
    ],
)
def test_a_wrong_type_or_key_does_not_compose(override: str) -> None:
    from hydra.errors import HydraException

    with pytest.raises(HydraException):
        composed([override])


def test_enums_come_out_typed() -> None:
    run, _ = load(container(["precision=bf16_lowmem", "offload=all"]))
    assert run.precision.dtype is DType.bf16
    assert run.precision.master_dtype is DType.bf16
    assert (run.offload.optimizer, run.offload.param) == (OffloadDevice.cpu, OffloadDevice.cpu)


def providers(folder: Path) -> list[tuple[str, str]]:
    with composer(folder):
        entries = GlobalHydra.instance().config_loader().get_search_path().get_path()
    return [(entry.provider, entry.path) for entry in entries]


def test_our_own_folder_is_not_listed_twice() -> None:
    assert [name for name, _ in providers(CONF)] == ["hydra", "main", "schema"]


def test_another_app_finds_the_groups_after_its_own(tmp_path: Path) -> None:
    found = providers(tmp_path)
    assert [name for name, _ in found] == ["hydra", "main", "zerocfg", "schema"]
    assert found[2][1] == f"file://{CONF}"
    assert conf_dir() == CONF


def test_an_app_adds_keys_and_replaces_options(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "defaults:\n  - zerocfg\n  - override parallelism: zero1\n  - _self_\nmine: {depth: 3}\nmodel: {hidden_size: 64}\n"
    )
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "optimizer" / "adamw.yaml").write_text("name: our_adamw\nlr: 7e-4\n")
    plain = container(folder=tmp_path, name="config")
    assert plain["mine"] == {"depth": 3}
    assert plain["model"]["hidden_size"] == 64
    assert plain["model"]["num_hidden_layers"] == 4
    assert plain["parallelism"]["name"] == "zero1"
    assert (plain["optimizer"]["name"], plain["optimizer"]["lr"], plain["optimizer"]["weight_decay"]) == ("our_adamw", 7e-4, None)


@pytest.mark.parametrize("nested", [False, True])
def test_a_single_run_goes_through_the_launcher(nested: bool, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults: [zerocfg, _self_]\nmine: 1\n")
    cfg = composed(folder=tmp_path, name="config", hydra=True) if nested else composed(hydra=True)
    assert cfg.hydra.mode.name == "MULTIRUN"
    assert "zerocfg" in cfg.hydra.launcher._target_
    raw = OmegaConf.to_container(cfg.hydra, resolve=False)
    assert isinstance(raw, dict)
    assert raw["sweep"] == {"dir": "${hydra.run.dir}", "subdir": "${hydra.job.num}"}
    assert raw["run"] == {"dir": "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S-%f}"}


def test_the_search_path_plugin_imports_nothing_heavy() -> None:
    code = "import sys, hydra_plugins.zerocfg_searchpath; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "zerocfg.schema" in modules
    assert {"torch", "deepspeed", "submitit", "pydantic", "rich", "typer", "pynvml", "numpy"} & set(modules) == set()
