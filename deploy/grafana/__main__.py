"""`python -m deploy.grafana [FOLDER]` builds the dashboards and writes their JSON files."""

import sys
from pathlib import Path

from deploy.grafana.build import FOLDER, rendered


def write(folder: Path) -> None:
    """Write all dashboards into the folder."""
    for name, text in rendered().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
