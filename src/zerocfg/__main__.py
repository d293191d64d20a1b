"""python -m zerocfg"""

from zerocfg.cli import entry

if __name__ == "__main__":
    entry()
