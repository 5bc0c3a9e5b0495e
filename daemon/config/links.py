"""`[links]`: the addresses that texts of alerts link to. Pure."""

from dataclasses import dataclass
from typing import Final

from .kinds import optional, setting, text

# Without a fragment: the rules append the section of the alert.
_ADDRESS: Final = optional(
    text(
        r"https?://[^\s#\"\\{}]+", rule="must begin with http:// or https://, without # and spaces"
    )
)


@dataclass(frozen=True)
class LinksSection:
    """Addresses that the texts of alerts link to."""

    runbook: str | None = setting(
        None, _ADDRESS, "Address of deploy/runbook.md where people on call can read it."
    )
    page: str | None = setting(
        None, _ADDRESS, "Address under which people on call reach the page of the exporters."
    )
    dashboards: str | None = setting(
        None, _ADDRESS, "Address of the Grafana that has the dashboards."
    )
