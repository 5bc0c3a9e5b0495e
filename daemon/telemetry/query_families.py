"""The families of tables of queries. They never have the text of a query."""

from typing import Final

from .family import gauge

QUERY_TABLES_BYTES: Final = gauge(
    "query_tables_bytes",
    (),
    "Bytes of all hours of queries that are over, in Redis: tables and examples.",
)
QUERY_OTHER_SHARE: Final = gauge(
    "query_other_share",
    (),
    "Share of the impressions of the last hour that is over whose queries the tables do not list: "
    "raise queries.kept to list more.",
)
OF_QUERIES: Final = (QUERY_TABLES_BYTES, QUERY_OTHER_SHARE)
