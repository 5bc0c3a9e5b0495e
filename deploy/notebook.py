"""Numbers of a running relevanced in a notebook: open this file as one (VS Code, Jupytext), or run
it.

It needs relevanced with its extra `plot`. pandas reads a table in one line:
`pandas.read_csv(URL + "/api/v1/hours.csv?metric=RR%4010", parse_dates=["start"])`.
"""

# %% Where relevanced answers, and two ways to read an answer
import csv
import json
import os
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import matplotlib.pyplot as plt
import numpy as np

from relevanced.metrics import Design, UserBuckets, compare_arms, over_all

URL = os.environ.get("RELEVANCED_URL", "http://localhost:9465")


def table(path: str, **parameters: str) -> list[dict[str, str]]:
    with urlopen(f"{URL}/api/v1/{path}.csv?{urlencode(parameters)}") as answer:
        return list(csv.DictReader(answer.read().decode().splitlines()))


def answer(path: str, **parameters: str) -> Any:
    with urlopen(f"{URL}/api/v1/{path}?{urlencode(parameters)}") as body:
        return json.load(body)


# %% A week of one metric, hour by hour, with its standard errors
METRIC = os.environ.get("METRIC", "RR@10")
until = datetime.fromisoformat(answer("health")["as_of"])
week = table(
    "hours", metric=METRIC, grouping="all", **{"from": (until - timedelta(days=7)).isoformat()}
)
whole = [row for row in week if row["complete"] == "True" and row["stderr"]]
times = [datetime.fromisoformat(row["start"]) for row in whole]
means = [float(row["mean"]) for row in whole]
errors = [1.96 * float(row["stderr"]) for row in whole]
plt.errorbar(np.array(times), means, errors, linewidth=1)
plt.ylabel(METRIC)
plt.savefig(os.environ.get("PICTURE", "week.png"))
print(f"{len(whole)} complete hours of {METRIC}")

# %% The interval of an experiment, computed again from its buckets
EXPERIMENT = os.environ.get("EXPERIMENT", "ranker-v2")
found = answer(f"experiments/{EXPERIMENT}/buckets")
of = {metric["metric"]: metric for metric in found["metrics"]}[METRIC]


def arm(variant: str) -> UserBuckets:
    rows = [
        row
        for row in found["rows"]
        if (row["variant"], row["stratum"], row["metric"]) == (variant, "", METRIC)
    ]
    impressions, scored, sums, squares = (
        np.array([row[name] for row in rows])
        for name in ("impressions", "scored", "sum", "squares")
    )
    tallies = UserBuckets(scored, sums, squares, of["unit"])
    return over_all(tallies, impressions, of["worst"])


by_name = {one["variant"]: one for one in found["variants"]}
control = by_name.pop(found["control"])
for variant, counts in by_name.items():
    statement = compare_arms(
        arm(control["variant"]),
        arm(variant),
        Design(counts["planned_impressions"]),
        of["direction"],
        impressions=sum(one["impressions"] - one["without_unit"] for one in (control, counts)),
    ).absolute
    print(
        f"{variant}: {statement.interval.lower:+.4f} to {statement.interval.upper:+.4f} in {METRIC}"
    )
