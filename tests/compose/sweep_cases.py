"""Overrides for the tests of the sweep composer: what is common, what is odd, and what is known to be hard.

The app of them is in sweep_app/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Dict, List, Optional, Union  # noqa: UP035 - OmegaConf reads these spellings on every Python

from hypothesis import strategies as st

from zerocfg.compose.kinds import typed_keys
from zerocfg.confsource import conf_dir


def _apart(text: str) -> list[str]:
    """Overrides stand two blanks apart."""
    return re.split(r"(?: {2,}|\n)\s*", text.strip())


class Size(Enum):
    small = 1
    large = 2


@dataclass
class Inner:
    depth: int = 2
    ratio: Union[int, float] = 1  # noqa: UP007
    tags: List[str] = field(default_factory=lambda: ["a"])  # noqa: UP006


@dataclass(frozen=True)
class Frozen:
    x: int = 1


@dataclass
class Typed:
    fixed: Frozen = field(default_factory=Frozen)
    size: Size = Size.small
    inner: Inner = field(default_factory=Inner)
    limit: Optional[int] = None  # noqa: UP045
    path: Path = Path("/data")
    table: Dict[str, Inner] = field(default_factory=dict)  # noqa: UP006
    by_size: Dict[Size, int] = field(default_factory=lambda: {Size.small: 1})  # noqa: UP006
    seed: str = "${seed}"


CHOICES = _apart(
    r"""
    db=mysql  db=postgres  model=small  model=large  model=whole  nested=a  nested=b  data@inputs.train=text  +experiment=big
    +experiment=odd  +spare=one  ~db  db/pool=many  +db/pool=many  spare=one  db=[mysql,postgres]
    """
)
"""Group choices that compose in sweep_app/plain.yaml, most of them in the others."""

GOOD = _apart(
    r"""
    seed=2  seed=2.5  seed=null  name=new  seed='x y'  seed=[1,2]  chosen=1  count=5  sep=;  layers.0=9  layers=[]
    layers[1].width=9  model.size=7  model.block.width=1  model.block={width: 2}  +model.block={depth: 3}  ~model.block  +user=1
    +user={a: {b: [1, 2]}}  ++user.a=2  +user.x=${seed}  +alias=${db}  seed=${model.size}  db.port=${seed}  typed.size=large
    typed.inner.depth=3  typed.limit=4  typed.inner.tags=[b,c]  +typed.table.a={depth: 9}  chosen.size=5  model.name=m  db.port=1
    db.host=h  ++typed.more=1  ~name  ~count  +list=[${seed},{a: ${db.port}}]  ++chosen.size=7
    """
)
"""Values that do."""

ODD = _apart(
    r"""
    db=mysql  db=postgres  db=broken  db=nope  db=[mysql,postgres]  db=null  db=???  db='postgres'  db=5  model=small
    model=large  model=other  model=whole  model=nope  model=${db}  model=small.yaml  nested=a  nested=b  nested/part=y
    db/pool=many  +db/pool=many  ++db=mysql  ~db  ~db=mysql  ~db=postgres  ~model  +experiment=big  +experiment=odd
    experiment=big  +experiment=nope  spare=one  ~spare  +model=large  +spare=one  data@inputs.train=text  data@inputs.test=text
    +data@inputs.test=text  typed=base  +tuned=mysql_small  model={name: x}  seed=2  seed=2.5  seed=null  seed=???  seed='x y'
    seed="{"  seed=${model.size}  seed=[1,2]  seed={a:1}  seed=true  name=new  name={a:1}  chosen=1  chosen={size: 5}
    chosen.size=5  ~chosen  chosen=${db}  +chosen.more=1  ++chosen.size=7  count=5  count={}  +count=5  ~count  ~count=1  ~seed
    ~seed=1  ~seed=2  sep=;  sep=${missing}  +sep=1  layers.0=9  layers[1].width=9  layers.1={width: 3}  layers.7=1  layers=[]
    layers.x=1  ~layers.0  +layers.3=1  layers.2=5  model.size=7  model.block.width=1  model.block={width: 2}
    +model.block={depth: 3}  model.nothing=1  ~model.block  model=null  +user=1  +user={a: {b: [1, 2]}}  +user.a.b=${seed}
    ++user.a=2  user=1  +user=${hydra.job.name}  user.a=1  +user.a.c=1  +view={a:1}  view.more=2  view.size=3  +alias=${db}
    alias.port=1  +list=[${seed},{a: ${db.port}}]  db.port=${seed}  typed.size=large  typed.size=huge  typed.inner.depth=3
    typed.inner.depth=x  typed.inner.ratio=0.5  typed.inner.ratio=[1]  typed.limit=4  typed.limit=null  typed.inner=null
    typed.inner={depth: 5}  typed.inner={nope: 5}  +typed.more=1  ++typed.more=1  +typed.table.a={depth: 9}  typed.table={a: {}}
    typed.by_size.small=2  +typed.by_size.large=3  typed.path=/x  typed.seed=${name}  typed.inner.tags=[b,c]
    typed.inner.tags.0=z  ~typed.limit  ~typed.table  typed=${db}  typed={limit: 1}  typed.fixed.x=2  ++typed.fixed.y=2
    hydra.job.name=n  hydra/launcher=basic  hydra.searchpath=[]  hydra={verbose: true}  +hydra.x=1  hydra[job].name=k
    hydra.nope=1  hydra.sweep.subdir=${seed}  hydrated=1  +hydrated=1  wanted=[]  +wanted.x=1  seed=1,2  seed=range(3)
    seed=choice(1,2)  seed=glob(*)  seed=interval(0,1)  seed=  seed  =1  seed=[  a b=1  ~  +  seed=sort(3,1)  name=str(5)
    name=int(x)  seed=float(1)  'quoted'=1  seed@pkg=1  model@pkg=small  name=\${x}  name='\${x}'
    """
)
"""Errors of every kind, what only some configs take, and Hydra's own node."""

HARD = [
    # an override that writes through an interpolation, one that reads one, one that lays a mapping over one
    ("plain", ["chosen.size=5"]),
    ("plain", ["+alias=${db}", "alias.port=1"]),
    ("plain", ["+alias=${hydra.job}", "alias.name=x"]),
    ("plain", ["+name=x"]),
    ("plain", ["~name=${model.name}"]),
    ("plain", ["~name=small-1"]),
    ("plain", ["+at=${hydra.job.override_dirname}", "~at=x"]),
    ("plain", ["+at=${hydra.job.override_dirname}", "~at"]),
    ("plain", ["+at=${hydra.job.override_dirname}", "+at=x"]),
    ("plain", ["typed.inner={depth: ${seed}}", "+typed.table.a={depth: ${hydra.job.num}}"]),
    ("plain", ["chosen={size: 9}", "model=large"]),
    ("plain", ["layers=[${seed},2]"]),
    ("plain", ["typed.seed=${hydra.job.name}"]),
    # the name of the job's overrides is joined by what the config says
    ("plain", ["sep=;", "name=x", "seed=3", "model=large"]),
    ("plain", ["sep=${nothing}"]),
    # the same group twice, deleted and chosen, as a list
    ("plain", ["db=mysql", "db=postgres"]),
    ("plain", ["db=postgres", "db=[mysql,postgres]"]),
    ("plain", ["db=[mysql,postgres]", "db=postgres"]),
    ("plain", ["~db", "db=postgres"]),
    # options that change more than their own node
    ("plain", ["model=whole", "db=postgres"]),
    ("plain", ["model=other"]),
    ("plain", ["nested=b", "db=mysql"]),
    ("plain", ["nested=b", "model=large"]),
    ("plain", ["nested/part=y", "nested=a"]),
    ("plain", ["+experiment=big", "db=postgres"]),
    ("plain", ["+experiment=big", "model=small"]),
    ("plain", ["+experiment=odd", "model=large"]),
    ("plain", ["spare=one", "data@inputs.train=text"]),
    ("plain", ["model=${db}"]),
    # typed nodes keep what they are
    ("plain", ["typed.by_size.small=2", "typed.inner.ratio=0.5", "typed.size=large", "+typed.table.a={depth: 9}"]),
    ("plain", ["typed.fixed.x=2"]),
    ("plain", ["seed=shuffle([1])"]),
    ("named", ["model=large"]),
    ("named", ["db=postgres", "model=large"]),
    ("linked", ["model=large", "db=postgres"]),
    ("linked", ["view.size=3", "model.size=4"]),
    # two options that matter to a third key only together
    ("crossed", ["first=linked", "second=deep"]),
    ("laid", ["first=linked", "second=deep"]),
    ("picked", ["db=postgres"]),
    ("picked", ["model=large"]),
    ("picked", ["db=postgres", "model=large"]),
    ("asking", ["model=large"]),
    ("asking", ["wanted=[]"]),
    ("asking", ["wanted=[HOME]", "db=postgres"]),
    ("shared", ["db=postgres", "db/pool=many"]),
    ("shared", ["db=mysql", "db/pool=many"]),
    ("must", ["model=large"]),
    ("must", ["model=small", "db=postgres", "nested=b"]),
]
"""(primary config, overrides)"""

VALUES = st.one_of(
    st.integers(-3, 99).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(
        ["true", "null", "???", "''", "'a b'", '"q"', "${seed}", "${nope}", "${model}", "${hydra.job.name}", "[]", "{}", "x,y"]
    ),
    st.lists(st.integers(0, 9).map(str) | st.sampled_from(["a", "${seed}", "'b c'"]), max_size=3).map(lambda items: f"[{','.join(items)}]"),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "x", "[2]", "{d: 3}", "${seed}"]), max_size=2).map(
        lambda items: "{" + ",".join(f"{k}:{v}" for k, v in items.items()) + "}"
    ),
    st.text(alphabet="ab1.{}[]$:=,'\\\\ \"", max_size=6),
)
MARKS = st.sampled_from(["", "", "", "+", "++", "~"])
KEYS = st.sampled_from(
    _apart(
        """
    seed  name  chosen  chosen.size  layers  layers.0  layers[1].width  model.size  model.block  model.block.heads  db.port
    db.user  user  user.a  typed.inner.depth  typed.inner  typed.table.a  typed.limit  view  view.more
    """
    )
)
ANY = st.sampled_from([*CHOICES, *GOOD, *ODD, ""]) | st.builds("{}{}={}".format, MARKS, KEYS, VALUES)


@st.composite
def overrides_of_a_job(draw: st.DrawFn, primary: str) -> list[str]:
    """Mostly good ones, so that most jobs compose."""
    chosen = draw(st.lists(st.sampled_from(CHOICES), max_size=2))
    if primary == "must" and draw(st.integers(0, 9)):
        chosen.append(draw(st.sampled_from(["model=small", "model=large"])))
    lines = chosen + draw(st.lists(st.sampled_from(GOOD), max_size=2)) + draw(st.lists(ANY, max_size=1))
    return list(draw(st.permutations(lines)))


OPTIONS = sorted(f"{path.parent.name}={path.stem}" for path in conf_dir().glob("*/*.yaml"))


@st.composite
def overrides_of_our_groups(draw: st.DrawFn) -> list[str]:
    lines = draw(st.lists(st.sampled_from(OPTIONS), max_size=4))
    keys = st.sampled_from(sorted(typed_keys())) | st.sampled_from(["deepspeed.x", "deepspeed.zero_optimization.y", "env.NAME", "own.key"])
    free = st.builds("{}{}={}".format, st.sampled_from(["", "+", "++", "~"]), keys, VALUES)
    good = ["optimizer.lr=3e-4", "train.steps=7", "batch.micro_batch_size=2", "+deepspeed.x.y=[1]", "+env.A=b", "+own={a: {b: 1}}"]
    lines += draw(st.lists(st.sampled_from(good), max_size=3)) + draw(st.lists(free, max_size=1))
    return list(draw(st.permutations(lines)))
