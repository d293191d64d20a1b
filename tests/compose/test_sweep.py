"""SweepComposer against Hydra's own load_sweep_config: the same config to the last flag, or the same exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Dict, List, Optional, Union  # noqa: UP035 - OmegaConf reads these spellings on every Python

import pytest
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.base import Node

from zerocfg.compose import from_hydra
from zerocfg.compose.kinds import typed_keys
from zerocfg.compose.plain import to_plain
from zerocfg.compose.sweep import SweepComposer, plain_groups
from zerocfg.confsource import conf_dir
from zerocfg.schema import GROUPS


APP = Path(__file__).parent / "sweep_app"


class Size(Enum):
    small = 1
    large = 2


@dataclass
class Inner:
    depth: int = 2
    ratio: Union[int, float] = 1  # noqa: UP007
    tags: List[str] = field(default_factory=lambda: ["a"])  # noqa: UP006


@dataclass
class Typed:
    size: Size = Size.small
    inner: Inner = field(default_factory=Inner)
    limit: Optional[int] = None  # noqa: UP045
    path: Path = Path("/data")
    table: Dict[str, Inner] = field(default_factory=dict)  # noqa: UP006
    by_size: Dict[Size, int] = field(default_factory=lambda: {Size.small: 1})  # noqa: UP006
    seed: str = "${seed}"


CHOICES = ["db=mysql", "db=postgres", "model=small", "model=large", "model=whole", "nested=a", "nested=b", "data@inputs.train=text"]
CHOICES += ["+experiment=big", "+experiment=odd", "+spare=one", "~db", "db/pool=many", "+db/pool=many", "spare=one", "db=[mysql,postgres]"]
GOOD = ["seed=2", "seed=2.5", "seed=null", "name=new", "seed='x y'", "seed=[1,2]", "chosen=1", "count=5", "sep=;", "layers.0=9", "layers=[]"]
GOOD += ["layers[1].width=9", "model.size=7", "model.block.width=1", "model.block={width: 2}", "+model.block={depth: 3}", "~model.block"]
GOOD += ["+user=1", "+user={a: {b: [1, 2]}}", "++user.a=2", "+user.x=${seed}", "+alias=${db}", "seed=${model.size}", "db.port=${seed}"]
GOOD += ["typed.size=large", "typed.inner.depth=3", "typed.limit=4", "typed.inner.tags=[b,c]", "+typed.table.a={depth: 9}", "chosen.size=5"]
GOOD += ["model.name=m", "db.port=1", "db.host=h", "++typed.more=1", "~name", "~count", "+list=[${seed},{a: ${db.port}}]", "++chosen.size=7"]
ODD = [
    # groups: options, none, lists, additions, deletions, packages
    *(f"db={name}" for name in ("mysql", "postgres", "broken", "nope", "[mysql,postgres]", "null", "???", "'postgres'", "5")),
    *(f"model={name}" for name in ("small", "large", "other", "whole", "nope", "${db}", "small.yaml")),
    *("nested=a", "nested=b", "nested/part=y", "db/pool=many", "+db/pool=many", "++db=mysql", "~db", "~db=mysql", "~db=postgres", "~model"),
    *("+experiment=big", "+experiment=odd", "experiment=big", "+experiment=nope", "spare=one", "~spare", "+model=large", "+spare=one"),
    *("data@inputs.train=text", "data@inputs.test=text", "+data@inputs.test=text", "typed=base", "+tuned=mysql_small", "model={name: x}"),
    # values of our own keys
    *("seed=2", "seed=2.5", "seed=null", "seed=???", "seed='x y'", 'seed="{"', "seed=${model.size}", "seed=[1,2]", "seed={a:1}", "seed=true"),
    *("name=new", "name={a:1}", "chosen=1", "chosen={size: 5}", "chosen.size=5", "~chosen", "chosen=${db}", "+chosen.more=1", "++chosen.size=7"),
    *("count=5", "count={}", "+count=5", "~count", "~count=1", "~seed", "~seed=1", "~seed=2", "sep=;", "sep=${missing}", "+sep=1"),
    *("layers.0=9", "layers[1].width=9", "layers.1={width: 3}", "layers.7=1", "layers=[]", "layers.x=1", "~layers.0", "+layers.3=1", "layers.2=5"),
    *("model.size=7", "model.block.width=1", "model.block={width: 2}", "+model.block={depth: 3}", "model.nothing=1", "~model.block", "model=null"),
    *("+user=1", "+user={a: {b: [1, 2]}}", "+user.a.b=${seed}", "++user.a=2", "user=1", "+user=${hydra.job.name}", "user.a=1", "+user.a.c=1"),
    *("+view={a:1}", "view.more=2", "view.size=3", "+alias=${db}", "alias.port=1", "+list=[${seed},{a: ${db.port}}]", "db.port=${seed}"),
    # typed nodes
    *("typed.size=large", "typed.size=huge", "typed.inner.depth=3", "typed.inner.depth=x", "typed.inner.ratio=0.5", "typed.inner.ratio=[1]"),
    *("typed.limit=4", "typed.limit=null", "typed.inner=null", "typed.inner={depth: 5}", "typed.inner={nope: 5}", "+typed.more=1", "++typed.more=1"),
    *("+typed.table.a={depth: 9}", "typed.table={a: {}}", "typed.by_size.small=2", "+typed.by_size.large=3", "typed.path=/x", "typed.seed=${name}"),
    *("typed.inner.tags=[b,c]", "typed.inner.tags.0=z", "~typed.limit", "~typed.table", "typed=${db}", "typed={limit: 1}"),
    # Hydra's node, sweeps, syntax
    *("hydra.job.name=n", "hydra/launcher=basic", "hydra.searchpath=[]", "hydra={verbose: true}", "+hydra.x=1", "hydra[job].name=k", "hydra.nope=1"),
    *("hydra.sweep.subdir=${seed}", "hydrated=1", "+hydrated=1", "wanted=[]", "+wanted.x=1"),
    *("seed=1,2", "seed=range(3)", "seed=choice(1,2)", "seed=glob(*)", "seed=interval(0,1)", "seed=", "seed", "=1", "seed=[", "a b=1", "~", "+", ""),
    *("seed=sort(3,1)", "name=str(5)", "name=int(x)", "seed=float(1)", "'quoted'=1", "seed@pkg=1", "model@pkg=small", "name=\\${x}", "name='\\${x}'"),
]


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEP_TEST_COPIED", "copied")
        yield


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
        assert outcome(lambda: composer.compose(list(overrides))) == wanted


@pytest.fixture(params=["plain", "must", "named", "linked", "asking", "shared"])
def primary(request: pytest.FixtureRequest) -> str:
    return str(request.param)


VALUES = st.one_of(
    st.integers(-3, 99).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(["true", "null", "???", "''", "'a b'", '"q"', "${seed}", "${nope}", "${model}", "${hydra.job.name}", "[]", "{}", "x,y"]),
    st.lists(st.integers(0, 9).map(str) | st.sampled_from(["a", "${seed}", "'b c'"]), max_size=3).map(lambda items: f"[{','.join(items)}]"),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "x", "[2]", "{d: 3}", "${seed}"]), max_size=2).map(
        lambda items: "{" + ",".join(f"{k}:{v}" for k, v in items.items()) + "}"
    ),
    st.text(alphabet="ab1.{}[]$:=,'\\\\ \"", max_size=6),
)
MARKS = st.sampled_from(["", "", "", "+", "++", "~"])
KEYS = st.sampled_from(
    ["seed", "name", "chosen", "chosen.size", "layers", "layers.0", "layers[1].width", "model.size", "model.block", "model.block.heads"]
    + ["db.port", "db.user", "user", "user.a", "typed.inner.depth", "typed.inner", "typed.table.a", "typed.limit", "view", "view.more"]
)
ANY = st.sampled_from([*CHOICES, *GOOD, *ODD]) | st.builds("{}{}={}".format, MARKS, KEYS, VALUES)


@st.composite
def overrides_of_a_job(draw: st.DrawFn, primary: str) -> list[str]:
    """Mostly good ones, so that most jobs compose."""
    chosen = draw(st.lists(st.sampled_from(CHOICES), max_size=2))
    if primary == "must" and draw(st.integers(0, 9)):
        chosen.append(draw(st.sampled_from(["model=small", "model=large"])))
    lines = chosen + draw(st.lists(st.sampled_from(GOOD), max_size=2)) + draw(st.lists(ANY, max_size=1))
    return list(draw(st.permutations(lines)))


def test_a_job_is_what_hydra_composes_or_raises(primary: str) -> None:
    with app(APP, primary) as (loader, master):
        composer = SweepComposer(loader, master)

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(overrides_of_a_job(primary))
        def check(overrides: list[str]) -> None:
            assert_as_hydra(composer, loader, master, overrides)

        check()
