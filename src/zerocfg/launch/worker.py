"""What torchrun starts: `python -m zerocfg.launch.worker PAYLOAD`. Empty but for the call: the script's own names move in here."""

if __name__ == "__main__":
    import sys

    from zerocfg.launch.ending import run

    run(sys.argv[1:])
