"""The z-scores beyond which a score is called worse. Pure.

They are no settings: the tables of false alarms and detection times in deploy/runbook.md were
measured with them, and the rules in deploy/prometheus/rules/quality.yml state the same numbers.
"""

from typing import Final

DROPPED_HOUR: Final = -4.0
"""The last hour, where the last six hours are beyond `DROPPED_SIX_HOURS` too."""
DROPPED_SIX_HOURS: Final = -3.0
DROPPED_THREE_HOURS: Final = -4.5
"""The last three hours, where the last one is beyond `LOW_HOUR`."""
LOW_HOUR: Final = -1.5
LIKELIER: Final = 7.5
"""Natural logarithm: how much likelier a loss of `SUSPECTED_RATIO` must make the last three hours
than no loss."""
SUSPECTED_RATIO: Final = 0.1
SINKING: Final = -4.0
"""The last day."""
SINKING_STEADILY: Final = -3.7
"""The last day, where its standard error is below `STEADY_ERROR_RATIO` of the baseline: most of it
is drift then, and a day averages drift out."""
STEADY_ERROR_RATIO: Final = 0.01
FAR_BELOW: Final = -5.0
"""The last hour, where `far_below_ratio` of the baseline is lost."""
