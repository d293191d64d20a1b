from __future__ import annotations

import pytest

from zerocfg.provenance import Entry, Origin, Origins, Reason, asked, rule, trace

ORIGINS = Origins({"batch": Origin("conf/batch/big.yaml"), "batch.micro_batch_size": Origin("command line: batch.micro_batch_size=4")})


@pytest.mark.parametrize(
    ("path", "anywhere", "exactly"),
    [
        ("batch.micro_batch_size", "command line: batch.micro_batch_size=4", "command line: batch.micro_batch_size=4"),
        ("batch.global_batch_size", "conf/batch/big.yaml", "schema default"),
        ("batch.a[0].b", "conf/batch/big.yaml", "schema default"),
        ("optimizer.lr", "schema default", "schema default"),
    ],
)
def test_origins(path: str, anywhere: str, exactly: str) -> None:
    assert (ORIGINS.of(path), ORIGINS.of_exactly(path)) == (anywhere, exactly)


@pytest.mark.parametrize(
    ("reason", "decided", "entry"),
    [
        (asked("batch.micro_batch_size"), {}, ("command line: batch.micro_batch_size=4", "batch.micro_batch_size")),
        (asked("optimizer.lr"), {}, ("schema default", "optimizer.lr")),
        (rule("resolve.zero", "4096^2"), {}, ("resolve.zero", "4096^2")),
        (
            rule("resolve.batch", "8 / 4", "batch.micro_batch_size"),
            {},
            ("resolve.batch", "8 / 4 (batch.micro_batch_size from command line: batch.micro_batch_size=4)"),
        ),
        # nobody wrote it: a probe found it
        (
            rule("resolve.x", "cores", "hardware.cpus_per_node"),
            {"hardware.cpus_per_node": rule("probe", "read off this machine")},
            ("resolve.x", "cores (hardware.cpus_per_node from probe)"),
        ),
        (
            rule("resolve.x", "cores", "hardware.cpus_per_node"),
            {"hardware.cpus_per_node": asked("hardware.cpus_per_node")},
            ("resolve.x", "cores (hardware.cpus_per_node from schema default)"),
        ),
    ],
)
def test_trace(reason: Reason, decided: dict[str, Reason], entry: tuple[str, str]) -> None:
    assert trace("p", 1, reason, ORIGINS, decided) == Entry("p", 1, *entry)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (True, "p = true  # s: r"),
        (None, "p = null  # s: r"),
        (16777216, "p = 16777216  # s: r"),
        (1e-08, "p = 1e-08  # s: r"),
        ([0.9, 0.999], "p = [0.9, 0.999]  # s: r"),
        ("AdamW", "p = AdamW  # s: r"),
        ("", 'p = ""  # s: r'),
        ("/a b", 'p = "/a b"  # s: r'),
        ("a\nb # c", 'p = "a\\nb # c"  # s: r'),
    ],
)
def test_one_greppable_line(value: object, line: str) -> None:
    assert Entry("p", value, "s", "r").render() == line


def test_an_override_with_a_newline_is_one_line() -> None:
    assert Entry("p", "x", "command line: a=\n\tb", "").render() == "p = x  # command line: a=\\n\\tb"
