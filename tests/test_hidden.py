from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerocfg.hidden import HIDDEN, assigned_secrets, hide_override, hide_values, is_secret, secret_path


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("WANDB_API_KEY", True),
        ("DB_PASSWORD", True),
        ("MY_TOKENS", True),
        ("PASSWORD_FILE", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("hf_token", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("KEYBOARD", False),
        ("NCCL_DEBUG", False),
    ],
)
def test_names(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.parametrize(
    ("override", "shown"),
    [
        ("+env.HF_TOKEN=abc", f"+env.HF_TOKEN={HIDDEN}"),
        ("env.HF_TOKEN='a=b c'", f"env.HF_TOKEN={HIDDEN}"),
        ("++env.HF_TOKEN=a,b", f"++env.HF_TOKEN={HIDDEN}"),
        ("+env.HF_TOKEN={a: b}", f"+env.HF_TOKEN={HIDDEN}"),
        ("+env={HF_TOKEN: abc, A: 1}", f"+env={{HF_TOKEN: {HIDDEN}, A: 1}}"),
        ("env={A: 1, HF_TOKEN: 'a, b}'}", f"env={{A: 1, HF_TOKEN: {HIDDEN}}}"),
        ('env={HF_TOKEN: "a\\"b"}', f"env={{HF_TOKEN: {HIDDEN}}}"),
        ("hydra.launcher={environment: {HF_TOKEN: abc}}", f"hydra.launcher={{environment: {{HF_TOKEN: {HIDDEN}}}}}"),
        ("+hydra.launcher.environment.API_KEY=abc", f"+hydra.launcher.environment.API_KEY={HIDDEN}"),
        ("+hydra.job.env_set.API_KEY=abc", f"+hydra.job.env_set.API_KEY={HIDDEN}"),
        ("hydra.launcher.setup=['export HF_TOKEN=abc; ls','A=1']", f"hydra.launcher.setup=['export HF_TOKEN={HIDDEN}; ls','A=1']"),
        ("+hydra.launcher.srun.export='ALL,HF_TOKEN=abc,B=1'", f"+hydra.launcher.srun.export='ALL,HF_TOKEN={HIDDEN},B=1'"),
        ("container.arguments=[--env=API_KEY=abc]", f"container.arguments=[--env=API_KEY={HIDDEN}]"),
        ("hydra.launcher.setup=['export HF_TOKEN=$(cat t)']", "hydra.launcher.setup=['export HF_TOKEN=$(cat t)']"),
        ("+env.A=b", "+env.A=b"),
        ("~env.HF_TOKEN", "~env.HF_TOKEN"),
        # a key of the model, not of an environment
        ("model.num_key_value_heads=8", "model.num_key_value_heads=8"),
        ("key=value", "key=value"),
        ("", ""),
    ],
)
def test_overrides(override: str, shown: str) -> None:
    assert hide_override(override) == shown


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("export HF_TOKEN=abc", ["HF_TOKEN"]),
        ("export A=1 HF_TOKEN='a b' B_KEY=\"x\"", ["HF_TOKEN", "B_KEY"]),
        ("login --api-key=abc", ["key"]),
        ("ALL,HF_TOKEN=abc", ["HF_TOKEN"]),
        ("export HF_TOKEN=$OTHER", []),
        ('export HF_TOKEN="$(cat ~/.token)"', []),
        ("export HF_TOKEN=`cat t`", []),
        ("export HF_TOKEN=; HF_TOKEN= ; unset HF_TOKEN", []),
        ("module load cuda/12.8", []),
        ("[ $HF_TOKEN = x ]", []),
        ("export TOKENIZERS_PARALLELISM=false", []),
    ],
)
def test_values_that_a_text_gives_to_secrets(text: str, names: list[str]) -> None:
    assert assigned_secrets(text) == names


def test_paths() -> None:
    assert secret_path("env.HF_TOKEN")
    assert secret_path("env.HF_TOKEN.a")
    assert not secret_path("env.A")
    assert not secret_path("model.num_key_value_heads")


@given(st.text(min_size=4).filter(lambda s: s not in HIDDEN), st.text(), st.text())
def test_no_value_is_left(value: str, before: str, after: str) -> None:
    assert value not in hide_values(before + value + after, [value]).replace(HIDDEN, "\0")


def test_of_two_values_the_longer_goes_first() -> None:
    assert hide_values("abcdef abcd", ["abcd", "abcdef"]) == f"{HIDDEN} {HIDDEN}"
    assert hide_values("a1b", ["1"]) == "a1b"
