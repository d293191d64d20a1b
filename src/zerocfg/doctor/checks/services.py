"""Programs that start the run: SLURM, the container's runtime."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.doctor.finding import Finding, bad, fail, ok, warn
from zerocfg.doctor.machine import TIMED_OUT, Machine
from zerocfg.doctor.needs import Needs


def slurm(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC862."""
    if needs.plan is not None and not needs.slurm:
        return
    absent = [name for name in ("sbatch", "srun", "scontrol", "squeue") if not machine.which(name)]
    if "scontrol" in absent:
        if needs.slurm:
            yield fail("ZC862", f"no {', '.join(absent)} here", "a login node, module load slurm, or hydra/launcher=zerocfg_local")
        return
    if absent:
        yield bad(needs.slurm, "ZC862", f"scontrol is here, but no {', '.join(absent)}", "the rest of SLURM's client programs")
    version = machine.run("scontrol", "--version").stdout.strip() or "SLURM"
    config = machine.run("scontrol", "show", "config")
    if not config.ok:
        said = config.said.removeprefix("scontrol: ").removeprefix("error: ")
        why = "no answer from slurmctld" if config.returncode == TIMED_OUT else said
        yield bad(needs.slurm, "ZC862", f"{version}: {why}", "scontrol ping; the cluster's status page")
        return
    settings = {k.strip(): v.strip() for k, _, v in (line.partition("=") for line in config.stdout.splitlines())}
    accounting = settings.get("AccountingStorageType", "none")
    note = "without accounting (zerocfg waits by squeue)" if accounting.endswith("none") or accounting == "(null)" else accounting
    yield ok(f"{version}, cluster {settings.get('ClusterName', '?')}, {note}")


def container(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC863."""
    kind, plan = needs.container, needs.plan
    if plan is None or kind == "none":
        return
    if kind == "pyxis":
        if "container-image" not in machine.run("srun", "--help", timeout=5.0).stdout:
            yield bad(
                needs.slurm,
                "ZC863",
                "srun has no --container-image: pyxis is not installed",
                "container=apptainer, or ask the cluster's admins",
            )
        else:
            yield ok("srun has pyxis")
        return
    if not machine.which(kind):
        yield fail("ZC863", f"no program {kind} on the PATH", f"install {kind}, or container=none")
        return
    if kind == "apptainer":
        image = plan.container.image
        if "://" not in image and not machine.exists(image):
            yield fail("ZC863", f"container.image={image} does not exist", f"apptainer build {image} docker-daemon://zerocfg:latest")
        else:
            yield ok(machine.run("apptainer", "--version").stdout.strip())
        return
    asked = machine.run("docker", "info", "--format", "{{.ServerVersion}} {{json .Runtimes}}", timeout=5.0)
    if not asked.ok:
        yield fail("ZC863", f"docker does not answer: {asked.said}", "sudo systemctl start docker; your user in the group docker")
        return
    version, _, runtimes = asked.stdout.strip().partition(" ")
    if needs.cuda and "nvidia" not in runtimes:
        yield warn("ZC863", f"docker {version} lists no NVIDIA runtime", "install nvidia-container-toolkit; nvidia-ctk runtime configure")
    elif not machine.run("docker", "image", "inspect", "--format", "{{.Id}}", plan.container.image, timeout=5.0).ok:
        text = f"docker {version} has no image {plan.container.image} yet"
        yield warn("ZC863", text, f"docker build -f docker/Dockerfile -t {plan.container.image} ., or docker pull")
    else:
        yield ok(f"docker {version}, image {plan.container.image}")
