"""Signals: noted between steps; SIGTERM ends a rank at once when another has died, even while it waits inside C code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from zerocfg.runtime.stopping import StopSignals, introduce, name_of, neighbours

NAMES = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGUSR2")

# Waits in a mutex that it holds already: no Python handler runs there, and no signal interrupts it.
STUCK = """
import ctypes, sys
from zerocfg.runtime.stopping import StopSignals, neighbours
with StopSignals(("SIGTERM",), neighbours(["- 0 -", sys.argv[1]], 0)):
    print("ready", flush=True)
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
"""
SLEEPER = "from zerocfg.runtime.stopping import introduce; print(introduce(), flush=True); import time; time.sleep(60)"


def test_the_first_one_counts_and_handlers_come_back() -> None:
    before = [signal.getsignal(signal.Signals[name]) for name in NAMES]
    with StopSignals(NAMES) as signals:
        assert (signals.number, signals.name) == (0, "")
        # left to its meaning
        assert signal.getsignal(signal.SIGQUIT) == before[2]
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (signals.number, signals.name) == (signal.SIGUSR2, "SIGUSR2")
    assert [signal.getsignal(signal.Signals[name]) for name in NAMES] == before


def test_on_the_way_out_signals_are_noted_still() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with StopSignals(("SIGTERM",)) as signals:
            signals.deafen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.name == "SIGTERM"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_outside_of_the_main_thread_nothing_changes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def loop() -> None:
        with StopSignals(("SIGTERM",)):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()
    assert seen == [before]


def test_neighbours_are_the_others_on_this_machine() -> None:
    mine = introduce()
    elsewhere = f"another/pid:[1] {os.getpid()} 5"
    found = neighbours([mine, elsewhere, mine], 0)
    assert [other.rank for other in found] == [2]
    assert found[0].alive()
    machine = mine.split(" ")[0]
    (reused,) = neighbours([mine, f"{machine} {os.getpid()} 5"], 0)
    assert not reused.alive()


def stuck(other: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", STUCK, other], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_sigterm_while_another_rank_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True) as sleeper:
        assert sleeper.stdout is not None
        other = sleeper.stdout.readline().strip()
        process = stuck(other)
        try:
            process.send_signal(signal.SIGTERM)
            time.sleep(1)
            # the other one lives: this rank was asked to stop, and saves when its step is over
            assert process.poll() is None
            sleeper.kill()
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
            sleeper.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert err == "SIGTERM, and rank 1 is gone: this rank ends\n"


def test_names() -> None:
    assert (name_of(0), name_of(float(signal.SIGUSR2))) == ("", "SIGUSR2")
