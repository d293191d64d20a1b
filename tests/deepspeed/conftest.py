"""DeepSpeed's own parser as the judge, and the table-driven shape of a rule's test."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.deepspeed.introspect.release import quiet_deepspeed
from zerocfg.diagnostics import Severity

BASE: dict[str, Any] = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0}
"""The smallest config without a finding."""

Parse = Callable[..., str | None]


@pytest.fixture(scope="session")
def config_class() -> Iterator[Any]:
    with quiet_deepspeed():
        from deepspeed.runtime import config

        yield config


@pytest.fixture(scope="session")
def parse(config_class: Any) -> Parse:
    """parse(config, world_size=1) -> None when DeepSpeedConfig accepts it, else what it raised."""

    def parse(config: Mapping[str, Any], world_size: int = 1) -> str | None:
        dist = config_class.dist
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(dist, "get_rank", lambda *_, **__: 0)
            patch.setattr(dist, "get_world_size", lambda *_, **__: world_size)
            try:
                config_class.DeepSpeedConfig(copy.deepcopy(dict(config)))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        return None

    return parse


def build(changes: Mapping[str, Any]) -> dict[str, Any]:
    """BASE with dotted paths set; `...` removes a key."""
    config = copy.deepcopy(BASE)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = config
        for name in parents:
            place = place.setdefault(name, {})
        if value is ...:
            place.pop(last)
        else:
            place[last] = value
    return config


@pytest.fixture(scope="session")
def examine(parse: Parse) -> Callable[[Mapping[str, Any]], None]:
    """Run one case: {"code", "path", "bad", "good", "parser"} and optionally "options", "severity", "also".

    bad: changes to BASE that `code` must report at `path`. good: changes that leave no error and no warning, apart from
    codes in `also`. parser: whether DeepSpeedConfig "raises" on bad or "accepts" it; it must accept good.
    """

    def examine(case: Mapping[str, Any]) -> None:
        options = {"world_size": 1, **case.get("options", {})}
        bad, good = build(case["bad"]), build(case["good"])
        severity = case.get("severity", Severity.ERROR)
        found = check_deepspeed(bad, **options)
        at = [d for d in found if d.code == case["code"] and d.path == f"deepspeed.{case['path']}"]
        assert at, [d.render() for d in found]
        assert at[0].severity is severity
        assert at[0].message.startswith(at[0].path)
        left = [
            d.render() for d in check_deepspeed(good, **options) if d.severity is not Severity.NOTE and d.code not in case.get("also", ())
        ]
        assert left == []
        said = parse(bad, options["world_size"] or 1)
        assert (said is None) == (case["parser"] == "accepts"), said
        assert parse(good, options["world_size"] or 1) is None

    return examine


def corpus() -> Path:
    """The public configs, beside the checkout."""
    return Path(__file__).resolve().parents[3] / "shared" / "corpus"
