"""Judgements of the simulated search: what a rater would say who knows how attractive items are.
Pure.

Of the queries that are searched most, and of the items that are worth a click at times: so a broken
ranker shows in the grades of what it lists, and in how much of it is judged.
"""

import csv
import io
from typing import Final

from .world import World

JUDGED_QUERIES: Final = 150
"""Queries that are judged: about two searches in three."""
GRADES: Final = ((0.3, 3), (0.08, 2), (0.05, 1), (0.015, 0))
"""(least attraction, grade); what attracts less was never rated."""


def judged_set(world: World, queries: int = JUDGED_QUERIES) -> bytes:
    """The judgements as a CSV file with the columns query, docid and rating."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("query", "docid", "rating"))
    for query in world.queries[:queries]:
        for item, attraction in query.candidates:
            grade = next((grade for least, grade in GRADES if attraction >= least), None)
            if grade is not None:
                rows.writerow((query.text, item, grade))
    return text.getvalue().encode()
