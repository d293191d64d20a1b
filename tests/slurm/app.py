"""The app of the launcher's tests, copied to where a test runs it."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import hydra


@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    print("argv", sys.argv[1:], "host", socket.gethostname(), "rank", rank, "of", world, flush=True)
    if cfg.what == "fail" and rank == world - 1:
        raise ValueError(f"boom {cfg.a}")
    if cfg.what == "exit":
        sys.exit(cfg.a)
    if cfg.what == "kill":
        os.kill(os.getpid(), 9)
    if cfg.what == "signal":
        got = []
        signal.signal(signal.SIGUSR2, lambda number, frame: got.append(number))
        Path(os.environ["ZEROCFG_RUN_DIR"], f"ready_{rank}").touch()
        while not got:
            time.sleep(0.1)
        Path(os.environ["ZEROCFG_RUN_DIR"], f"got_{rank}").touch()
        return "signalled"
    if cfg.what in ("sleep", "fail"):
        Path(os.environ["ZEROCFG_RUN_DIR"], "sleeping").touch()
        time.sleep(600)
    if cfg.what == "environment":
        return {name: os.environ[name] for name in sorted(os.environ) if name in cfg.text}
    return cfg.text if cfg.what == "text" else cfg.a / 2


if __name__ == "__main__":
    main()
