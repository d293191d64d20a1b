"""SweepComposer against Hydra's own load_sweep_config: the same config to the last flag, or the same exception."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.base import Node

from tests.compose.sweep_cases import HARD, Typed, overrides_of_a_job, overrides_of_our_groups
from zerocfg.compose import from_hydra
from zerocfg.compose.plain import to_plain
from zerocfg.compose.sweep import SweepComposer
from zerocfg.compose.sweep_loader import CachedLoader, Merges
from zerocfg.confsource import conf_dir
from zerocfg.nodes import NOT_PLAIN, masked_copy, written

APP = Path(__file__).parent / "sweep_app"


@contextmanager
def app(folder: Path, name: str, *hydra_overrides: str) -> Iterator[tuple[Any, DictConfig]]:
    """Loader and sweep config of an app as `python app.py -m` has them."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base=None, job_name="app"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        overrides = ["hydra/launcher=basic", "hydra.mode=MULTIRUN", *hydra_overrides]
        yield hydra.config_loader, hydra.config_loader.load_configuration(name, overrides, RunMode.MULTIRUN)


@pytest.fixture(scope="module", autouse=True)
def _surroundings() -> Iterator[None]:
    ConfigStore.instance().store(group="typed", name="base", node=Typed)
    both = {("postgres", "large"): "mysql_large"}
    OmegaConf.register_new_resolver("sweep_test_pick", lambda db, model: both.get((db, model), "mysql_small"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEP_TEST_COPIED", "copied")
        yield
    OmegaConf.clear_resolver("sweep_test_pick")


def described(node: Any, parent: Any = None) -> Any:
    """All that a node is: types, flags, keys, values and their types."""
    assert node._get_parent() is parent
    told = {name: value for name, value in vars(node._metadata).items() if name != "resolver_cache"}
    content = node.__dict__.get("_content", node.__dict__.get("_val"))
    if isinstance(content, dict):
        content = [(repr(key), described(child, node)) for key, child in content.items()]
    elif isinstance(content, list):
        content = [described(child, node) for child in content]
    elif isinstance(content, Node):
        content = described(content, node)
    return type(node).__name__, sorted(told.items()), type(content).__name__, repr(content)


def outcome(compose: Callable[[], DictConfig]) -> Any:
    try:
        cfg = compose()
    except Exception as error:
        chain = []
        current: BaseException | None = error
        while current is not None:
            chain.append((type(current).__name__, str(current)))
            current = current.__cause__
        return "raised", chain
    return OmegaConf.to_yaml(cfg), OmegaConf.get_cache(cfg), described(cfg)


def assert_as_hydra(composer: SweepComposer, loader: Any, master: DictConfig, overrides: Sequence[str]) -> None:
    wanted = outcome(lambda: loader.load_sweep_config(master, list(overrides)))
    for _ in range(2):  # the second is served from what the first left
        found = outcome(lambda: composer.compose(list(overrides)))
        if found != wanted:
            here, there = repr(found), repr(wanted)
            at = next((i for i, (x, y) in enumerate(zip(here, there, strict=False)) if x != y), 0)
            pytest.fail(f"{overrides}: {here[max(0, at - 200) : at + 200]}\nHydra: {there[max(0, at - 200) : at + 200]}")


@pytest.mark.parametrize("primary", sorted({primary for primary, _ in HARD}))
def test_what_is_hard_about_hydra(primary: str) -> None:
    with app(APP, primary) as (loader, master):
        composer = SweepComposer(loader, master)
        for name, overrides in HARD:
            if name == primary:
                assert_as_hydra(composer, loader, master, overrides)


def examples(check: Callable[[list[str]], None], strategy: st.SearchStrategy[list[str]], count: int) -> None:
    settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))(given(strategy)(check))()


@pytest.mark.parametrize("primary", ["plain", "must", "named", "linked", "asking", "shared"])
def test_a_job_is_what_hydra_composes_or_raises(primary: str) -> None:
    with app(APP, primary) as (loader, master):
        composer = SweepComposer(loader, master)
        examples(lambda overrides: assert_as_hydra(composer, loader, master, overrides), overrides_of_a_job(primary), 20)


def test_our_own_groups_compose_as_hydra_composes_them() -> None:
    with app(conf_dir(), "zerocfg") as (loader, master):
        composer = SweepComposer(loader, master)
        examples(lambda overrides: assert_as_hydra(composer, loader, master, overrides), overrides_of_our_groups(), 30)


def test_every_option_is_composed_once_and_all_their_combinations_from_that(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []
    hydras = CachedLoader.load_recorded

    def counting(self: CachedLoader, overrides: Sequence[str]) -> Any:
        asked.append(tuple(overrides))
        return hydras(self, overrides)

    monkeypatch.setattr(CachedLoader, "load_recorded", counting)
    with app(conf_dir(), "zerocfg") as (loader, master):
        composer = SweepComposer(loader, master)
        grid = itertools.product(
            ["parallelism=zero1", "parallelism=zero2", "parallelism=zero3", "parallelism=ddp"],
            ["offload=none", "offload=optimizer", "offload=all"],
            ["hardware=a100x8", "hardware=h100x8", "hardware=cpu"],
            ["optimizer.lr=1e-3", "optimizer.lr=1e-4", "+own.key=1"],
        )
        jobs = [list(job) for job in grid]
        composed = [composer.compose(job) for job in jobs]
        assert len(asked) == 1 + 4 + 3 + 3  # what all share, and each option
        for at in (0, 50, len(jobs) - 1):
            assert outcome(lambda at=at: composed[at]) == outcome(lambda at=at: loader.load_sweep_config(master, jobs[at]))  # type: ignore[misc]


def test_a_merge_that_reads_elsewhere_is_also_seen_by_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Merges, "independent", True)
    with app(APP, "linked") as (loader, master):
        composer = SweepComposer(loader, master)
        for job in (["model=large"], ["model=large", "db=postgres"], ["model=small"]):
            assert_as_hydra(composer, loader, master, job)


def test_a_result_shares_nothing_with_the_next() -> None:
    with app(APP, "plain") as (loader, master):
        composer = SweepComposer(loader, master)
        first = composer.compose(["model=large", "+user={a: [1]}"])
        first.hydra.overrides.task.append("spoiled")
        first.model.block.width = "spoiled"
        OmegaConf.set_struct(first.model, False)
        OmegaConf.get_cache(first)["now"] = {"spoiled": 1}
        first.user.a.append("spoiled")
        first.typed.inner.tags.append("spoiled")
        assert_as_hydra(composer, loader, master, ["model=large", "+user={a: [1]}"])


def test_what_hydra_reads_besides_the_files_is_read_for_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with app(APP, "plain") as (loader, master):
        composer = SweepComposer(loader, master)
        assert composer.compose(["seed=2"]).hydra.job.env_set == {"SWEEP_TEST_COPIED": "copied"}
        monkeypatch.setenv("SWEEP_TEST_COPIED", "other")
        assert composer.compose(["seed=2"]).hydra.job.env_set == {"SWEEP_TEST_COPIED": "other"}
        monkeypatch.chdir(tmp_path)
        assert composer.compose(["seed=2"]).hydra.runtime.cwd == str(tmp_path)
        master.hydra.overrides.hydra.append("hydra.job.name=renamed")
        assert_as_hydra(composer, loader, master, ["seed=2"])
        assert composer.compose(["seed=2"]).hydra.job.name == "renamed"
        monkeypatch.delenv("SWEEP_TEST_COPIED")
        assert_as_hydra(composer, loader, master, ["seed=2"])  # a KeyError


def test_times_are_the_sweeps_own() -> None:
    with app(APP, "plain", "hydra.job.name=at-${now:%f}") as (loader, master):
        drawn = master.hydra.job.name
        job = SweepComposer(loader, master).compose(["model=large"])
        assert job.hydra.job.name == drawn


def test_the_sweeps_own_overrides_of_hydra_hold_for_each_job() -> None:
    with app(APP, "plain", "hydra.sweep.dir=out/${model.name}", "+hydra.job.note=${seed}", "hydra.verbose=true") as (loader, master):
        composer = SweepComposer(loader, master)
        for job in ([], ["model=large", "seed=4"], ["+hydra.sweep.x=1"], ["seed=[1]"]):
            assert_as_hydra(composer, loader, master, job)


def test_one_bad_job_leaves_the_rest_unharmed() -> None:
    with app(APP, "must") as (loader, master):
        composer = SweepComposer(loader, master)
        for job in ([], ["model=nope"], ["model=small", "db=broken"], ["model=small", "seed=[", "x=1"], ["model=small", "nope=1"]):
            assert outcome(lambda job=job: composer.compose(job))[0] == "raised"  # type: ignore[misc]
            assert_as_hydra(composer, loader, master, ["model=small"])
            assert_as_hydra(composer, loader, master, ["model=large", "db=postgres"])


def test_a_loader_that_is_not_hydras_own_composes_itself() -> None:
    with app(APP, "plain") as (_, master):

        class Other:
            def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
                return OmegaConf.create({"master": master_config is master, "overrides": sweep_overrides})

        assert SweepComposer(Other(), master).compose(["a=1"]) == {"master": True, "overrides": ["a=1"]}


def test_a_search_path_in_a_job_is_hydras_to_follow(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "remote.yaml").write_text("host: far\n", encoding="utf-8")
    with app(APP, "plain") as (loader, master):
        composer = SweepComposer(loader, master)
        job = [f"hydra.searchpath=[{tmp_path}]", "db=remote"]
        assert_as_hydra(composer, loader, master, job)
        assert composer.compose(job).db == {"host": "far"}
        assert_as_hydra(composer, loader, master, ["db=remote"])
        assert composer.compose_job(job).sources is None


def test_the_hydra_node_is_copied_as_omegaconf_copies_it() -> None:
    with app(APP, "plain") as (loader, master):
        cfg = loader.load_sweep_config(master, ["model=large", "seed=2"])
        copied = masked_copy(cfg, "hydra", "model")
        assert described(copied) == described(OmegaConf.masked_copy(cfg, ["hydra", "model"]))
        copied.hydra.job.name = "spoiled"
        assert cfg.hydra.job.name == "app"


@pytest.mark.parametrize("primary", ["plain", "linked"])
def test_a_config_is_written_as_omegaconf_writes_it(primary: str) -> None:
    with app(APP, primary) as (loader, master):
        for name, overrides in HARD:
            if name != primary:
                continue
            with contextlib.suppress(HydraException):
                cfg = loader.load_sweep_config(master, list(overrides))
                assert repr(written(cfg)) == repr(OmegaConf.to_container(cfg, resolve=False, enum_to_str=True))


JOBS = [
    ["parallelism=zero1", "optimizer.lr=3e-4", "+env.NAME=x"],
    ["model=llama2_7b", "train.steps=${batch.micro_batch_size}", "batch.micro_batch_size=3"],
    ["offload=all_nvme"],
    ["++train=null", "env=null"],
    ["~deepspeed", "+own.key=1"],
    ["+deepspeed.a={b: [1, ${train.steps}, {c: ???}]}", "scheduler.type=${nothing.there}"],
]


@pytest.mark.parametrize("overrides", JOBS, ids=" ".join)
def test_groups_are_read_as_the_slow_way_reads_them(overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with app(conf_dir(), "zerocfg") as (loader, master):
        cfg = SweepComposer(loader, master).compose(overrides)
        fast = to_plain(cfg)
        monkeypatch.setattr("zerocfg.compose.plain.plain", lambda node: NOT_PLAIN)
        slow = to_plain(cfg)
        assert repr(fast[0]) == repr(slow[0])
        assert list(fast[1]) == list(slow[1])


def test_a_job_says_what_was_merged_for_its_origins() -> None:
    with app(conf_dir(), "zerocfg") as (loader, master):
        composer = SweepComposer(loader, master)
        for overrides in (["parallelism=zero1", "optimizer=lion"], ["parallelism=zero2", "offload=all", "optimizer.lr=1"], []):
            job = composer.compose_job(overrides)
            quick = from_hydra(job.cfg, overrides, parsed=job.parsed, sources=job.sources)
            slow = from_hydra(loader.load_sweep_config(master, list(overrides)), overrides)
            assert (quick.container, quick.origins, quick.diagnostics) == (slow.container, slow.origins, slow.diagnostics)
