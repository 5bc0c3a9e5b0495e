"""`python -m deploy.grafana [FOLDER]` writes the dashboards anew, from the modules beside it."""

import sys
from pathlib import Path

from deploy.grafana.build import FOLDER, rendered


def write(folder: Path) -> None:
    """All dashboards, into the folder."""
    for name, text in rendered().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
