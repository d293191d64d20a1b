"""A config as YAML without its secrets, read-only nodes and interpolations included."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader

from zerocfg.launch.hidden_yaml import as_yaml, hidden_yaml, secret_values
from zerocfg.nodes import written

CONFIG = {
    "env": {"HF_TOKEN": "s3cr3t", "PIN_KEY": 12345, "A": "s3cr3t-like", "FROM_KEY": "${oc.env:HOME}"},
    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.99]},
    "model": {"num_key_value_heads": 8},
    "name": "run ${optimizer.lr}",
    "hydra": {
        "job": {"env_set": {"API_KEY": "k3y-v4lue"}, "override_dirname": "+env.HF_TOKEN=s3cr3t,optimizer.lr=1"},
        "overrides": {"task": ["+env.HF_TOKEN=s3cr3t", "optimizer.lr=1"]},
        "sweep": {"dir": "???"},
    },
}


def test_values() -> None:
    assert secret_values(OmegaConf.create(CONFIG)) == {"HF_TOKEN": "s3cr3t", "PIN_KEY": "12345", "API_KEY": "k3y-v4lue"}


def test_nothing_is_left() -> None:
    config = OmegaConf.create(CONFIG)
    secrets = secret_values(config)
    OmegaConf.set_readonly(config, True)
    config.hydra._metadata.flags = {"readonly": True}
    for node in (config.hydra.overrides, config.hydra.job, config.env):
        OmegaConf.set_readonly(node, True)
    text = hidden_yaml(written(config), secrets)
    assert [value for value in secrets.values() if value in text] == []
    read = OmegaConf.create(text)
    raw = OmegaConf.to_container(read, resolve=False)
    assert isinstance(raw, dict)
    assert raw["env"]["HF_TOKEN"] == "${oc.env:HF_TOKEN}"
    assert raw["env"]["PIN_KEY"] == "${oc.env:PIN_KEY}"
    assert raw["env"]["FROM_KEY"] == "${oc.env:HOME}"
    assert raw["hydra"]["job"]["env_set"]["API_KEY"] == "${oc.env:API_KEY}"
    # everything else is as it was
    assert (raw["optimizer"], raw["model"], raw["name"]) == (CONFIG["optimizer"], CONFIG["model"], CONFIG["name"])
    assert raw["hydra"]["sweep"] == {"dir": "???"}
    assert config.env.HF_TOKEN == "s3cr3t"


def test_without_secrets_it_is_omegaconf_s_own() -> None:
    config = OmegaConf.create(
        {"a": {"b": [1, "x: y", [], {}], "1": "012"}, "c": None, "long": "word " * 40, "d": ["", "no", "1e5", 1e-5, "-", "${a.b}", "é"]}
    )
    for secrets in ({}, {"HF_TOKEN": "s3cr3t"}):
        assert hidden_yaml(written(config), secrets) == OmegaConf.to_yaml(config)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_what_is_written_can_be_read(content: object) -> None:
    assert yaml.load(as_yaml(content), Loader=get_yaml_loader()) == content
