"""A script whose config has nothing of its own: what a launcher sees is Hydra's and zerocfg's alone."""

APP = """
import hydra
@hydra.main(version_base=None, config_path=None)
def main(cfg):
    return 1
if __name__ == "__main__":
    main()
"""
