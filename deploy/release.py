"""A release, as its workflow checks it and says what it brings.

    python -m deploy.release check v0.1.0    # fails, with every fault, unless the tree is that
    python -m deploy.release notes           # CHANGELOG.md's entry, for the page of the release
    python -m deploy.release chart URL       # Chart.yaml, with the repository at URL as its home
    python -m deploy.release dashboards DIR  # the dashboards as Grafana exports them for others

`published` in `[tool.relevanced]` of pyproject.toml says whether an index has the project: while it
is false no page may name the project as one of an index, because anybody could take that name.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
ON_AN_INDEX: Final = re.compile(r"pipx? install (?:-\S+ )*['\"]?relevanced\b(?!-|/)")
"""A command that fetches the project by its bare name."""
INPUT: Final = "DS_PROMETHEUS"
PANELS: Final = {
    "state-timeline": "State timeline",
    "stat": "Stat",
    "table": "Table",
    "timeseries": "Time series",
}
"""Type of panel → how Grafana names its plugin. A row is no plugin."""


def version() -> str:
    """Return the version: pyproject.toml is the one place where it is decided."""
    return str(_project()["project"]["version"])


def is_published() -> bool:
    """Whether an index has the project."""
    return bool(_project()["tool"]["relevanced"]["published"])


def notes(changes: str) -> tuple[str, str]:
    """Return (heading, text) of the newest entry of a changelog."""
    found = re.search(r"^## (.+)\n((?:(?!## ).*\n?)*)", changes, re.MULTILINE)
    return (found[1], found[2].strip()) if found else ("", "")


def faults(tag: str) -> Iterator[str]:
    """What keeps this tree from being the release of a tag."""
    if tag != f"v{version()}":
        yield f"tag {tag}: pyproject.toml has version {version()}"
    heading, _ = notes((ROOT / "CHANGELOG.md").read_text())
    if not re.fullmatch(rf"{re.escape(version())} \(\d{{4}}-\d\d-\d\d\)", heading):
        yield f'CHANGELOG.md: its newest entry is "{heading}", not {version()} with a date'
    if not is_published():
        yield "pyproject.toml: tool.relevanced.published is false"
    elif not ON_AN_INDEX.search((ROOT / "README.md").read_text()):
        yield "README.md: has no `pip install relevanced`, though published is true"


def chart(url: str) -> str:
    """Return the text of Chart.yaml for a release from the repository at a URL: its home, source
    and, by its owner, maintainer."""
    owner, _, _ = url.rpartition("/")
    return (
        f"{(ROOT / 'deploy/kubernetes/relevanced/Chart.yaml').read_text()}"
        f"home: {url}\nsources: [{url}]\n"
        f"maintainers: [{{name: {owner.rpartition('/')[2]}, url: {owner}}}]\n"
    )


def dashboards() -> dict[str, str]:
    """Return file name → JSON of each dashboard in the form of grafana.com: whoever imports it is
    asked for the data source, which the variable `datasource` begins with, and is told what it
    needs. Those that Grafana provisions from files are without: nobody is asked there."""
    folder = ROOT / "deploy/grafana/dashboards"
    return {
        f"relevanced-{path.name}": json.dumps(_shared(json.loads(path.read_text())), indent=1)
        + "\n"
        for path in sorted(folder.glob("*.json"))
    }


def _shared(dashboard: dict[str, Any]) -> dict[str, Any]:
    (source,) = (v for v in dashboard["templating"]["list"] if v["type"] == "datasource")
    source["current"] = {"text": f"${{{INPUT}}}", "value": f"${{{INPUT}}}"}
    needs = f"Needs relevanced {version()} and, in the same Prometheus, its alert rules."
    prometheus = {"type": "datasource", "pluginId": "prometheus", "pluginName": "Prometheus"}
    label = {
        "name": INPUT,
        "label": "Prometheus",
        "description": "The one that has its alert rules.",
    }
    found = re.search(r"image: grafana/grafana:(\S+)", (ROOT / "deploy/compose.yml").read_text())
    assert found is not None
    required = [
        ("grafana", "grafana", "Grafana", found[1]),
        ("datasource", "prometheus", "Prometheus", "1.0.0"),
        *(
            ("panel", of, PANELS[of], "")
            for of in sorted({panel["type"] for panel in dashboard["panels"]} - {"row"})
        ),
    ]
    return {
        "__inputs": [label | prometheus],
        "__elements": {},
        "__requires": [
            dict(zip(("type", "id", "name", "version"), each, strict=True)) for each in required
        ],
        **dashboard,
        "id": None,
        "description": f"{dashboard['description']} {needs}",
    }


def main(arguments: list[str]) -> int:
    """Check or print; returns the exit code."""
    match arguments:
        case ["check", tag]:
            found = list(faults(tag))
            print("\n".join(found), file=sys.stderr, end="\n" if found else "")
            return 1 if found else 0
        case ["notes"]:
            print(notes((ROOT / "CHANGELOG.md").read_text())[1])
            return 0
        case ["chart", url]:
            print(chart(url), end="")
            return 0
        case ["dashboards", folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, text in dashboards().items():
                (Path(folder) / name).write_text(text)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def _project() -> dict[str, dict[str, dict[str, object]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
