from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hydra.core.singleton import Singleton
from hydra.version import VersionBase
from hypothesis import HealthCheck, settings

GIB = 2**30

# The same examples in every run: what a change breaks is told by that change's run. --hypothesis-profile=search looks for new ones.
# No deadline: a shared machine may stall any single example. Composing with Hydra makes examples slow, not wrong.
settings.register_profile("zerocfg", deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", settings.get_profile("zerocfg"), derandomize=False, print_blob=True)
settings.load_profile("zerocfg")


@pytest.fixture
def no_version_base() -> Iterator[None]:
    """As in a fresh process: Hydra's suite wants the defaults of before 1.2, and other tests set a version base."""
    before = Singleton._instances.pop(VersionBase, None)
    yield
    Singleton._instances.pop(VersionBase, None)
    if before is not None:
        Singleton._instances[VersionBase] = before


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_reaches_children() -> None:
    """A shell starts its background jobs with SIGINT ignored, and so would be all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_device_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of the tests wait for each other's cores, not for those of the user's other runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZEROCFG_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_threads_exported() -> Iterator[None]:
    """OMP_NUM_THREADS of the shell that starts the tests would be kept, and noted, by every plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)
        yield


# One machine with eight GPUs, a model of 13 million parameters, everything explicit: each test changes what it is about.
BASE: dict[str, dict[str, Any]] = {
    "hardware": {
        "name": "test",
        "accelerator": "cuda",
        "gpu": "A100-SXM4-80GB",
        "num_nodes": 1,
        "gpus_per_node": 8,
        "memory_bytes": 80 * GIB,
        "compute_capability": "8.0",
        "link": "nvswitch",
        "p2p": True,
        "network": "infiniband",
        "network_gbps": 200.0,
        "cpus_per_node": 64,
        "host_memory_bytes": 1024 * GIB,
        "numa_nodes": 1,
    },
    "parallelism": {"stage": 3},
    "precision": {"dtype": "bf16"},
    "model": {
        "num_hidden_layers": 4,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "vocab_size": 1000,
        "sequence_length": 128,
    },
    "optimizer": {"type": "AdamW", "lr": 1e-4},
}

Make = Callable[..., dict[str, Any]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/*.txt; read the diff before committing it")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How workers share the tests (make unit): what starts several ranks or needs the test cluster runs in turn on one of them,
    for it takes all cores of a small machine; of the rest a file stays together, with its fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class InTurn(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "ranks" if file.startswith(("tests/integration/", "tests/slurm/")) else file

    return InTurn(config, log)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def container() -> Make:
    """make({"batch.global_batch_size": 100}) -> the containers of a run that compiles, with these values laid over it."""

    def make(changes: dict[str, Any] | None = None) -> dict[str, Any]:
        made: dict[str, Any] = copy.deepcopy(BASE)
        for path, value in (changes or {}).items():
            *parents, last = path.split(".")
            node = made
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = value
        return made

    return make
