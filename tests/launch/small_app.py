"""An app without zerocfg's groups, and its launcher as a process: shared by test_apps.py and test_apps_stopped.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from zerocfg.launch.paths import JOB_TOKEN

APP = """
import dataclasses, inspect, logging, os, pickle, signal, sys, time
import hydra
from helper import helped

@dataclasses.dataclass
class Answer:
    value: int

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    print("argv", sys.argv[1:], "name", cfg.name, "helped", helped(), "env", os.environ.get("FOO"))
    logging.getLogger("app").info("logged")
    # as torch.save and triton do: by the name of the script's module
    print("own class", pickle.loads(pickle.dumps(Answer(7))).value, inspect.getsource(Answer).splitlines()[1])
    if cfg.what == "fail":
        raise ValueError("boom %d" % cfg.a)
    if cfg.what == "exit":
        sys.exit(cfg.a)
    if cfg.what == "sleep":
        print("sleeping", flush=True)
        time.sleep(120)
    if cfg.what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("pid", os.getpid(), "sleeping", flush=True)
        time.sleep(120)
    if cfg.what == "kill":
        os.kill(os.getpid(), 9)
    if cfg.what == "unpicklable":
        return (i for i in range(3))
    return Answer(cfg.a)

if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults:
  - _self_
  - override hydra/launcher: zerocfg_local
a: 1
what: answer
name: run_${now:%f}
hydra:
  mode: MULTIRUN
  job: {env_set: {FOO: "bar $(touch PWNED) ${a}"}}
  sweep: {dir: out dir, subdir: "${hydra.job.num}"}
  launcher: {poll_seconds: 0.05}
  callbacks:
    note:
      _target_: helper.Note
"""
HELPER = """
import os
from hydra.experimental.callback import Callback
def helped():
    return "yes"
class Note(Callback):
    def on_job_start(self, config, **kwargs):
        self.pid = os.getpid()
    def on_job_end(self, config, job_return, **kwargs):
        print("callback", self.pid == os.getpid(), job_return.status.name, type(job_return._return_value).__name__)
    def on_multirun_end(self, config, **kwargs):
        print("multirun ended")
"""


def write_app(folder: Path) -> Path:
    (folder / "app.py").write_text(APP)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "helper.py").write_text(HELPER)
    return folder


def run(app: Path, *overrides: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run([sys.executable, "app.py", *overrides], cwd=app, env=env, capture_output=True, text=True, timeout=60, check=False)


def left_behind(app: Path) -> list[str]:
    """Command lines of processes that the launcher started for this app and that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if JOB_TOKEN.encode() in (entry / "environ").read_bytes() and os.readlink(entry / "cwd") == str(app):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


class Background:
    """A launcher that is running its job."""

    def __init__(self, app: Path, *overrides: str) -> None:
        self.app = app
        self.process = subprocess.Popen(
            [sys.executable, "app.py", *overrides],
            cwd=app,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.out = ""
        while "sleeping" not in self.out:
            line = self.process.stdout.readline()
            assert line, self.out
            self.out += line

    def end(self) -> str:
        out, _ = self.process.communicate(timeout=40)
        return self.out + out
