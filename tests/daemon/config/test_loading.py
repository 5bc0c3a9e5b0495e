"""The configuration: defaults, overrides, every fault at once, secrets, what a change restarts."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.config import (
    JOIN,
    LAYOUT,
    SETTINGS,
    Ago,
    Config,
    ConfigError,
    LogEnd,
    Secret,
    describe,
    duration_ms,
    duration_text,
    layout_of,
    load,
    masked_url,
    read,
    relaying_keys,
    restarting_keys,
    split_address,
    under_layout,
)
from relevanced.daemon.events import Limits
from relevanced.daemon.kafka import kafka_settings
from relevanced.daemon.storage import lane_topics, namespace, namespace_hash

PASSWORD: Final = "hunter2"
SASL: Final = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "u"\n'
SASL_KEYS: Final = 'sasl_mechanism = "PLAIN"\nsasl_username = "u"\nsasl_password = "p"\n'
OAUTH: Final = 'sasl_mechanism = "OAUTHBEARER"\n'
MSK: Final = "AWS_MSK_IAM_OAUTHBEARER"
OTHER_VALUES: Final = {
    "windows": ["5m", "2h"],
    "kafka.bootstrap_servers": ["elsewhere:9092"],
    "kafka.topics": ["clicks"],
    "kafka.group_id": "other",
    "kafka.client_id": "other",
    "kafka.lanes": "one",
    "kafka.idle_after": "off",
    "rekey.topic": "other",
    "rekey.partitions": 3,
    "kafka.start": "earliest",
    "kafka.ssl_check_hostname": False,
    "kafka.session_timeout": "30s",
    "kafka.max_batch_records": 5,
    "kafka.commit_interval": "1s",
    "kafka.isolation_level": "read_uncommitted",
    "redis.url": "redis://elsewhere/1",
    "redis.password": PASSWORD,
    "redis.password_file": "/run/secrets/redis",
    "redis.namespace": "other",
    "redis.keep": "8d",
    "registry.url": "https://elsewhere:8081",
    "events.format": "ubi",
    "events.max_future": "1m",
    "events.max_record_bytes": 1000,
    "events.dead_letter_topic": "dead",
    "events.rank_base": 0,
    "attribution.window": "1h",
    "attribution.lateness": "2m",
    "attribution.pane": "2s",
    "attribution.grades": {"click": 1, "purchase": 3},
    "attribution.join": "last_touch",
    "metrics.names": ["nDCG@10", "P@1"],
    "metrics.relevant_from": 2,
    "metrics.max_grade": 5,
    "metrics.depth": 50,
    "segments.groupings": [["country"]],
    "segments.max_segments": 5,
    "segments.max_values": 500,
    "segments.discovered_experiments": 0,
    "segments.version_attribute": "device",
    "history.days": 7,
    "queries.text": "plain",
    "queries.days": 9,
    "worker.max_memory_mib": 500,
    "changes.design_effect": 2,
    "changes.smallest_drop_ratio": 0.03,
    "changes.smallest_drop": 0.01,
    "changes.smallest_sample": 500,
    "changes.far_below_ratio": 0.3,
    "changes.drift_ratio": 0.01,
    "changes.weekday_drift_ratio": 0.05,
    "changes.share_drift_ratio": 0.1,
    "changes.feedback_share_drop_ratio": 0.5,
    "changes.zero_results_rise_ratio": 1.5,
    "changes.no_data_ratio": 0.2,
    "changes.feedback_stopped_ratio": 0.1,
    "changes.bad_feedback_rise": 0.05,
    "changes.late_seconds": 1200,
    "changes.lag_records": 50_000,
    "changes.rejected_ratio": 0.1,
    "changes.dead_letters_per_hour": 0,
    "changes.forget_after_seconds": 86_400,
    "changes.guardrail_log_evalue": 3,
    "changes.sample_ratio_log_evalue": 5.5,
    "changes.time_zone": "Europe/Berlin",
    "changes.metric_drift_ratios": {"P@1": 0.012},
    "changes.score_floors": [{"metric": "RR@10", "floor": 0.4}],
    "links.runbook": "https://wiki.example.com/runbook",
    "links.page": "https://relevanced.example.com/",
    "links.dashboards": "https://grafana.example.com",
    "http.listen": "127.0.0.1:80",
    "http.web_config": "web.yml",
    "log.level": "debug",
    "log.format": "json",
    "log.record_values": True,
}
"""Another value for every key that can be changed alone."""
SENTINEL: Final = 'url = "redis+sentinel://h/main"\n'
CREDENTIALS: Final = {
    "kafka.security_protocol",
    "kafka.sasl_mechanism",
    "kafka.sasl_username",
    "kafka.sasl_password",
    "kafka.sasl_password_file",
    *(one.key for one in SETTINGS if one.name.startswith("token")),
    "kafka.ssl_cafile",
    "kafka.ssl_certfile",
    "kafka.ssl_keyfile",
    "kafka.ssl_key_password",
    "kafka.ssl_key_password_file",
    *(f"registry.{name}" for name in ("kind", "region", "username", "password", "password_file")),
    *("registry.bearer_token_file", "registry.ssl_check_hostname"),
    *(
        f"{section}.ssl_{name}"
        for section in ("registry", "redis")
        for name in ("cafile", "certfile", "keyfile", "key_password", "key_password_file")
    ),
    "redis.ssl_check_hostname",
    *(f"redis.sentinel_{name}" for name in ("username", "password", "password_file")),
    "queries.key",
    "queries.key_file",
}
"""They need one another."""
OF_QUERIES: Final = {f"queries.{name}" for name in ("by", "kept", "min_users", "user", "examples")}
"""Settings of the layout that count where queries are kept: tests/daemon/config/test_queries.py."""
OF_JUDGEMENTS: Final = {
    f"judgements.{name}" for name in ("metrics", "relevant_from", "max_grade", "unjudged")
}
"""And those that count where lists are judged: tests/daemon/config/test_judgements.py."""
OF_ITEMS: Final = {"judgements.missing"}
"""And that which counts where both are."""
NEEDS_ANOTHER: Final = {"events.ubi_lists", "attribution.touch_wait"}
"""Its value other than the default needs one of another key."""
JOINS: Final = {
    "attribution.join",
    "kafka.topics",
    "kafka.lanes",
    "rekey.topic",
    "kafka.isolation_level",
    "events.format",
    "events.max_future",
    "events.max_record_bytes",
    "events.rank_base",
    "attribution.window",
    "attribution.lateness",
    "attribution.pane",
    "attribution.grades",
    "metrics.max_grade",
    "metrics.depth",
}
"""Their change starts a fresh namespace."""
LAYOUTS: Final = {
    "windows",
    "metrics.names",
    "metrics.relevant_from",
    "segments.groupings",
    "segments.max_values",
    "segments.discovered_experiments",
    "history.days",
    "queries.text",
}
"""Their change gives the namespace another layout."""


def of(text: str = "", **environment: str) -> Config:
    """The configuration of a text and of variables, named without their prefix."""
    return load(text, {f"RELEVANCED_{key}": value for key, value in environment.items()}, "test")


def faults_of(text: str = "", **environment: str) -> list[str]:
    """The faults of a configuration."""
    with pytest.raises(ConfigError) as caught:
        of(text, **environment)
    return caught.value.faults


def changed(key: str) -> Config:
    """The default configuration with another value of one key."""
    section, _, name = key.rpartition(".")
    value = OTHER_VALUES[key]
    kind = next(setting.kind for setting in SETTINGS if setting.key == key)
    written = value if isinstance(value, str) else None
    toml = f'"{written}"' if written is not None else kind.write(kind.read(value))
    return of(f"[{section}]\n{name} = {toml}" if section else f"{name} = {toml}")


def test_defaults_are_those_documented() -> None:
    config = of()
    assert config == Config()
    assert config.windows == (("5m", 300), ("1h", 3600), ("24h", 86_400))
    assert config.attribution.grades == {"click": 1, "add_to_cart": 2, "purchase": 3}
    assert (config.http.host, config.http.port) == ("0.0.0.0", 9465)
    assert config.limits == Limits(max_grade=3.0, attributes=("country", "device"))


EXPERIMENT: Final = """
[experiments.ranker-v2]
planned_impressions = 50_000
primary = "RR@10"
guardrails = ["nDCG@10"]
weights = { control = 3, treatment = 1 }
ramp = { "2026-11-22T00:00:00Z" = { control = 1, treatment = 1 } }
start = 2026-11-20T12:00:00Z
unit = "session"
"""


def test_an_experiment_is_read_as_written() -> None:
    tracking = of(EXPERIMENT).tracking
    assert tracking is not None
    spec = tracking.declared["ranker-v2"]
    assert (spec.control, spec.planned_impressions, spec.unit) == ("control", 50_000, "session")
    assert spec.metrics[0] == "RR@10" and len(spec.metrics) == 7
    assert (spec.role("nDCG@10"), spec.role("P@1")) == ("guardrail", "secondary")
    assert (spec.start_ms, spec.end_ms) == (1_795_176_000_000, None)
    assert spec.shares_since(1_795_305_600_000) == 1_795_305_600_000 > spec.shares_since(1) == 0
    assert dict(spec.weights_since(0)) == {"control": 3, "treatment": 1}
    assert dict(spec.weights_since(1_795_305_600_000)) == {"control": 1, "treatment": 1}
    assert of(EXPERIMENT).limits.attributes == ("country", "device", "session")
    assert load(describe(of(EXPERIMENT)), {}, "again").experiments == of(EXPERIMENT).experiments


def test_without_experiments_nothing_is_tracked() -> None:
    assert of("[segments]\ndiscovered_experiments = 0").tracking is None


def test_an_experiment_starts_no_fresh_namespace() -> None:
    assert namespace(of(EXPERIMENT)) == namespace(of())


def test_every_fault_of_an_experiment_is_reported() -> None:
    faults = faults_of("""
        [experiments]
        b = 1
        [experiments.a]
        kontrol = "x"
        planned_impressions = 0
        metrics = ["P@1", "P@2"]
        primary = "RR@10"
        guardrails = ["RR@10", "zz"]
        weights = { treatment = 1, c = 0 }
        start = 2026-11-20T12:00:00
        [experiments.c]
        weights = { b = 1, c = 2 }
        ramp = { "2026-11-22T00:00:00Z" = { b = 1, c = 2 } }
        start = 2026-11-20T12:00:00Z
        end = "2026-11-20T12:00:00Z"
        """)
    assert faults == [
        "experiments.b=1: must be a section: [experiments.b]",
        "experiments.a.kontrol: unknown key: must be one of control, planned_impressions, weights,"
        " ramp, daily_cap, metrics, primary, guardrails, start, end, unit, stratify_by",
        "experiments.a.planned_impressions=0: must be a whole number between 1 and 1000000000000",
        "experiments.a.weights=c=0: must be a number > 0",
        "experiments.a.start=2026-11-20 12:00:00: must be a date and time with zone,"
        " such as 2026-11-20T12:00:00Z",
        "experiments.a.metrics=P@2: must be one of metrics.names",
        "experiments.a.guardrails=zz: must be one of metrics.names",
        "experiments.a.primary=RR@10: must be one of the experiment's metrics",
        "experiments.a.guardrails=RR@10: must be one of the experiment's metrics",
        'experiments.c.weights={"b": 1.0, "c": 2.0}: must name the control (control) and another'
        " variant",
        'experiments.c.ramp.2026-11-22T00:00:00.000Z={"b": 1.0, "c": 2.0}: must name the control'
        " (control) and 1 to 9 more",
        "experiments.c.end=2026-11-20T12:00:00.000Z: must be after the start",
    ]


def test_default_namespace_is_pinned() -> None:
    """An upgrade that moves it makes every user's windows start anew: raise the schema version."""
    assert namespace(of()) == "relevanced-95c74a6e"


def test_start_reaches_back_for_the_longest_window() -> None:
    day, pane, attribution, lateness = 86_400_000, 2_880_000, 1_800_000, 60_000
    assert of().start == Ago(day + pane + attribution + lateness)
    assert of('[kafka]\nstart = "36h"').start == Ago(129_600_000)
    assert of('[kafka]\nstart = "latest"').start is LogEnd.LATEST
    assert of('[kafka]\nstart = "0s"').start == Ago(0)


def test_highest_grade_is_that_of_the_table() -> None:
    assert of("[attribution.grades]\nclick = 4").resolved_max_grade == 4
    assert of("[attribution.grades]\nclick = 4\n[metrics]\nmax_grade = 5").limits.max_grade == 5
    assert of("[attribution]\ngrades = {}").resolved_max_grade == 1


def test_environment_overrides_the_file() -> None:
    config = of('windows = ["1h"]\n[log]\nlevel = "debug"', LOG__LEVEL="ERROR", WINDOWS="5m, 10m")
    assert config.log.level == "error"
    assert config.windows == (("5m", 300), ("10m", 600))


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("KAFKA__TOPICS", "a,b", ("a", "b")),
        ("KAFKA__TOPICS", '["a", "b"]', ("a", "b")),
        ("KAFKA__BOOTSTRAP_SERVERS", "[::1]:9092,b:1", ("[::1]:9092", "b:1")),
        ("KAFKA__SSL_CHECK_HOSTNAME", "False", False),
        ("KAFKA__COMMIT_INTERVAL", "0.25", 250),
        ("METRICS__NAMES", "RR(rel=2)@5,P@1", ("RR(rel=2)@5", "P@1")),
        ("METRICS__RELEVANT_FROM", "0.5", 0.5),
        ("SEGMENTS__GROUPINGS", '[["a", "b"], "c"]', (("a", "b"), ("c",))),
        ("SEGMENTS__GROUPINGS", "[]", ()),
        ("ATTRIBUTION__GRADES", "click=1,buy=2.5", {"click": 1, "buy": 2.5}),
        ("ATTRIBUTION__GRADES", '{"buy": 2}', {"buy": 2}),
        ("EVENTS__DEAD_LETTER_TOPIC", "", None),
        ("REDIS__KEEP", "86400", 86_400),
    ],
)
def test_variables_spell_every_kind(variable: str, text: str, expected: object) -> None:
    config = of(**{variable: text})
    setting = next(s for s in SETTINGS if s.variable == f"RELEVANCED_{variable}")
    assert setting.value(config) == expected


def test_all_faults_are_reported_at_once() -> None:
    text = (
        'windows = ["0s"]\n[kafka]\ntopic = "x"\n[http]\nlisten = "here"\n[events]\nrank_base = 2'
    )
    assert faults_of(text, METRICS__NAMES="P@0,NDCG@10", LOG__LEVEL="loud") == [
        "kafka.topic: unknown key: did you mean kafka.topics?",
        "windows=0s: must be between 1s and 366d",
        "events.rank_base=2: must be a whole number between 0 and 1",
        'http.listen=here: must be host:port or :port, such as "0.0.0.0:9465"',
        "log.level=loud: must be one of debug, info, warning, error (from RELEVANCED_LOG__LEVEL)",
        "metrics.names=P@0: k=0: must be a whole number >= 1 (from RELEVANCED_METRICS__NAMES)",
        "metrics.names=NDCG@10: 'NDCG@10' is not a known metric: did you mean nDCG@10?"
        " (from RELEVANCED_METRICS__NAMES)",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("windows = []", "windows=[]: at least one is needed"),
        ('windows = ["1h", "60m"]', "windows=60m: is given more than once"),
        ('windows = ["5m", "301s"]', "301s must be a multiple of the base pane (10s)"),
        ('[attribution]\npane = "7s"', "5m must be a multiple of the base pane (7s)"),
        ('windows = ["1.5s"]', "windows=1.5s: must be a multiple of 1s"),
        ("windows = [true]", "windows=true: must be a duration"),
        ("kafka = 5", "kafka: must be a section: [kafka]"),
        ('topics = ["x"]', "topics: unknown key: did you mean kafka.topics?"),
        ("[kafka]\ntopics = []", "kafka.topics=[]: at least one topic is needed"),
        ('[kafka]\ntopics = ["a", "a"]', "kafka.topics=a: is given more than once"),
        ('[kafka]\ntopics = ["a b"]', "kafka.topics=a b: must be 1 to 249 of"),
        ('[kafka]\nbootstrap_servers = "broker"', "broker: must be host:port"),
        ('[kafka]\nbootstrap_servers = ["a:99999"]', "a:99999: port must be 1 to 65535"),
        ('[kafka]\nstart = "soon"', 'must be "earliest", "latest" or a duration'),
        ('[kafka]\nsasl_username = "u"', "has no effect with PLAINTEXT"),
        ('[kafka]\nssl_cafile = "ca.pem"', "has no effect with PLAINTEXT"),
        ('[redis]\nssl_cafile = "ca.pem"', "has no effect with redis://: needs rediss:// in redis"),
        ('[redis]\nsentinel_username = "u"', "has no effect with redis://: needs redis+sentinel"),
        (f'[redis]\n{SENTINEL}sentinel_username = "u"', "needs sentinel_password too"),
        ('[redis]\nurl = "rediss://h"\nssl_keyfile = "k"', "ssl_keyfile=k: needs ssl_certfile too"),
        (
            '[redis]\nurl = "rediss://h?ssl_ca_certs=ca.pem"\nssl_cafile = "ca.pem"',
            "redis.ssl_cafile=ca.pem: redis.url contains ssl_ca_certs too: remove one of them",
        ),
        ('[kafka]\nsecurity_protocol = "SASL_SSL"', "kafka.sasl_mechanism: must be set"),
        (f'[kafka]\n{SASL}sasl_password = ""', "kafka.sasl_password=***: must be a non-empty"),
        ('[kafka]\nsecurity_protocol = "ssl"\nssl_keyfile = "k"', "needs ssl_certfile"),
        *(
            (f'[kafka]\nsecurity_protocol = "SASL_SSL"\n{text}', f"kafka.{fault}")
            for text, fault in (
                ('sasl_mechanism = "OAUTHBEARER"', "token_url: must be set for oidc"),
                (f"{OAUTH}token_region = 'r'", "token_region=r: has no effect with oidc: needs "),
                (f'{OAUTH}token = "azure"', "token_scope: must be set for azure"),
                (f'{OAUTH}token = "gcp"\ntoken_url = "https://i"', "token_url=https://i: has no"),
                (f'{OAUTH}token = "{PASSWORD}"', "token: must be one of oidc, azure, gcp"),
                (f'sasl_mechanism = "{MSK}"', f"token_region: must be set for {MSK}"),
                (f'sasl_mechanism = "{MSK}"\ntoken = "gcp"', "token=gcp: has no effect with AWS"),
                (
                    f'sasl_mechanism = "{MSK}"\nsasl_username = "u"',
                    "sasl_username=u: has no effect with",
                ),
                (f'{SASL_KEYS}token = "gcp"', "token=gcp: has no effect with PLAIN: needs OAUTH"),
            )
        ),
        ('[redis]\ntoken_cache = "c"', "token_cache=c: has no effect with a password: needs re"),
        ('[redis]\ntoken = "gcp"\npassword = "p"', "redis.token=gcp: a password is given too"),
        ('[redis]\nurl = "redis://:p@h"\ntoken = "gcp"', "redis.token=gcp: a password is given"),
        ('[redis]\ntoken = "memorydb"', "redis.token_cache: must be set for memorydb"),
        ('[redis]\ntoken = "azure"', "redis.url: must name the user for azure: rediss://USER@"),
        ('[redis]\nurl = "http://h"', "redis.url=http://h: must start with redis://"),
        (
            '[redis]\nurl = "redis://h/prod"',
            "redis.url: the database must be a number, as in redis:",
        ),
        ('[redis]\nurl = "rediss://h/1x"', "redis.url: the database must be a number"),
        ('[redis]\nurl = "redis://h/0/1"', "redis.url: the database must be a number"),
        ('[redis]\nurl = "redis+cluster://h/prod"', "redis.url: the database must be a number"),
        ('[redis]\nurl = "redis://h?db=prod"', "redis.url: the database must be a number"),
        ('[redis]\nurl = "redis+sentinel://h/main?db=x"', "the database must be a number"),
        ('[redis]\npassword = "a"\npassword_file = "f"', "password is given too: remove one"),
        (
            '[redis]\nurl = "redis://:p@h"\npassword = "a"',
            "redis.url contains a password too: remove one",
        ),
        ('[redis]\nkeep = "1h"', "redis.keep=3600s: must be >= the longest window (86400s)"),
        ('[redis]\nnamespace = "{a}"', "redis.namespace={a}: must be letters, digits"),
        ('[events]\nformat = "csv"', "events.format=csv: must be one of native, ubi"),
        ('[events]\ndead_letter_topic = "search-events"', "must not be an input topic"),
        ("[attribution]\ngrades = {a = -1}", "a=-1: must be a number between 0 and 1000"),
        ("[attribution]\ngrades = {a = inf}", "must be a number between 0 and 1000"),
        ('[attribution]\ngrades = {"" = 1}', "a kind must be 1 to 256 bytes"),
        ("[metrics]\nnames = []", "metrics.names=[]: at least one metric is needed"),
        ('[metrics]\nnames = ["P@5", "P@05"]', "metrics.names=P@05: P@5 is given more than once"),
        ("[metrics]\ndepth = 5", "metrics.names=P@10: k must be <= depth (5)"),
        ("[metrics]\nmax_grade = 2", "must be >= the highest of attribution.grades (3)"),
        ("[metrics]\nrelevant_from = 4", "must be <= the highest grade (3)"),
        ("[metrics]\nrelevant_from = 0", "metrics.relevant_from=0: must be > 0"),
        ('[segments]\ngroupings = [["all"]]', "the grouping of all traffic is always there"),
        ("[segments]\ngroupings = [[]]", "the grouping of all traffic is always there"),
        ('[segments]\ngroupings = [["a", "a"]]', "names an attribute more than once"),
        (
            '[segments]\nversion_attribute = "ranker"',
            'segments.version_attribute=ranker: must be a grouping of its own: add ["ranker"]',
        ),
        ('[segments]\ngroupings = [["a", "b"], ["b", "a"]]', '["b", "a"]: is given more than once'),
        ('[segments]\ngroupings = [["a,b"]]', "a name must not contain a comma"),
        ('[segments]\ngroupings = ["experiment:"]', "must be followed by the name of an exper"),
        ('[http]\nlisten = ":65536"', "http.listen=:65536: port must be 0 to 65535"),
        ("windows = [", "test: is not TOML"),
    ],
)
def test_each_rule_is_reported_with_its_value(text: str, fault: str) -> None:
    assert any(fault in reported for reported in faults_of(text)), faults_of(text)


def test_metrics_need_nothing_beyond_the_impression() -> None:
    assert "R@10 needs a judged pool" in faults_of('[metrics]\nnames = ["R@10"]')[0]


def test_variables_that_a_cluster_sets_are_ignored() -> None:
    config = of(SERVICE_HOST="10.0.0.1", PORT_9465_TCP="tcp://10.0.0.1:9465", CONFIG="x.toml")
    assert config == Config()


def test_broken_json_of_a_variable_is_reported() -> None:
    (fault,) = faults_of(ATTRIBUTION__GRADES='{"a": }')
    assert fault.startswith('attribution.grades={"a": }: is not JSON: ')
    assert fault.endswith(" (from RELEVANCED_ATTRIBUTION__GRADES)")


@pytest.mark.parametrize("variable", ["KAFKA_TOPICS", "KAFKA__TOPIC"])
def test_misspelt_variables_are_refused(variable: str) -> None:
    (fault,) = faults_of(**{variable: "x"})
    expected = f"RELEVANCED_{variable}: unknown variable: did you mean RELEVANCED_KAFKA__TOPICS?"
    assert fault == expected


def test_secrets_show_nowhere() -> None:
    text = f'[kafka]\n{SASL}sasl_password = "{PASSWORD}"\n[redis]\nurl = "rediss://u:{PASSWORD}@h"'
    config = of(text)
    settings = kafka_settings(config)
    assert settings.sasl_password == Secret(PASSWORD)
    for text in (repr(config), describe(config), str(config.redis.url), repr(settings)):
        assert PASSWORD not in text
    assert 'url = "rediss://u:***@h"' in describe(config)


@pytest.mark.parametrize(
    "text",
    [
        f'[redis]\ntoken = "{PASSWORD}"',
        f'[kafka]\nsasl_passwrd = "{PASSWORD}"',
        f'[kafka]\nsasl_password = "{PASSWORD}"',
        f'[kafka]\nsasl_password = ["{PASSWORD}"]',
        f'redis = "redis://:{PASSWORD}@h"',
        f'[redis]\nurl = "http://u:{PASSWORD}@h"',
        f'[redis]\nurl = "u:{PASSWORD}@h"',
        f'[redis]\nurl = "redis://u:{PASSWORD}@h"\npassword = "{PASSWORD}"',
        f'[redis]\nurl = "redis://{PASSWORD}/prod"',
    ],
)
def test_faults_show_no_secret(text: str) -> None:
    assert PASSWORD not in "".join(faults_of(text))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("rediss://u:p@h", "rediss://u:***@h"),
        ("redis://:p/@:x@h", "redis://:***@h"),
        ("redis+sentinel://u:p@a:1,b:2/main", "redis+sentinel://u:***@a:1,b:2/main"),
        ("redis://h?db=1&password=p&ssl_keyfile=k", "redis://h?db=1&password=***&ssl_keyfile=k"),
        ("redis://h?passwrd=p&db=1", "redis://h?passwrd=***&db=1"),
        ("rediss+cluster://:p@h", "rediss+cluster://:***@h"),
    ],
)
def test_urls_show_no_password(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_secrets_come_from_files(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "config.toml"
    secret.write_text(f"{PASSWORD}\n")
    file.write_text(f'[kafka]\n{SASL}sasl_password_file = "{secret}"')
    config = read(str(file), {"RELEVANCED_REDIS__PASSWORD_FILE": str(secret)})
    assert config.kafka.sasl_password is not None
    assert config.kafka.sasl_password.reveal() == PASSWORD
    assert config.redis.password == config.kafka.sasl_password


def test_unreadable_files_are_faults(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(ConfigError, match="missing: cannot be read: No such file"):
        read(missing, {})
    with pytest.raises(ConfigError, match="redis.password_file=.*: cannot be read"):
        read(None, {"RELEVANCED_REDIS__PASSWORD_FILE": missing})


SECRETS_OF_WORKERS = """
[kafka]
security_protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
sasl_username = "u"
{password}
[registry]
url = "https://r"
bearer_token_file = "/nowhere/token"
[redis]
password_file = "{redis}"
"""


def test_exporter_needs_no_secret_that_only_workers_use(tmp_path: Path) -> None:
    file, redis = tmp_path / "config.toml", tmp_path / "redis"
    redis.write_text("r")
    for password in ('sasl_password_file = "/nowhere/password"', ""):
        text = SECRETS_OF_WORKERS.format(password=password, redis=redis)
        file.write_text(text)
        read(str(file), {}, role="exporter")
        for role in ("worker", "all"):
            with pytest.raises(ConfigError, match="kafka.sasl_password"):
                read(str(file), {}, role=role)
    redis.unlink()
    with pytest.raises(ConfigError, match="^redis.password_file=[^\\n]*$"):
        read(str(file), {}, role="exporter")


@pytest.mark.parametrize("key", ["", *OTHER_VALUES])
def test_description_reads_back_equal(key: str) -> None:
    config = changed(key) if key else of()
    if key != "redis.password":
        assert load(describe(config), {}, "described") == config


def test_every_key_is_classified() -> None:
    """A new key must be put into the tables above: does it restart the windows?"""
    classified = set(OTHER_VALUES) | CREDENTIALS | NEEDS_ANOTHER | OF_QUERIES | OF_JUDGEMENTS
    classified |= {"judgements.directory", *OF_ITEMS}
    assert {setting.key for setting in SETTINGS} == classified
    shaping = {shapes: {s.key for s in SETTINGS if s.shapes == shapes} for shapes in (JOIN, LAYOUT)}
    of_layout = LAYOUTS | OF_QUERIES | OF_JUDGEMENTS | OF_ITEMS
    assert shaping == {JOIN: JOINS | NEEDS_ANOTHER, LAYOUT: of_layout}
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize("key", OTHER_VALUES)
def test_namespace_moves_with_the_join_and_layout_with_the_rest_that_shapes_rows(key: str) -> None:
    before, after = of(), changed(key)
    assert before != after
    assert (namespace_hash(before) != namespace_hash(after)) == (key in JOINS)
    assert restarting_keys(before, after) == ([key] if key in JOINS else [])
    same_layout = layout_of(before).digest == layout_of(after).digest
    assert same_layout == (not relaying_keys(before, after))
    assert (key in LAYOUTS) <= (key in relaying_keys(before, after)), "and what follows from it"
    assert key in JOINS | LAYOUTS or same_layout


def test_namespace_stays_for_the_same_meaning() -> None:
    plain = of('[kafka]\ntopics = ["a", "b"]\n[metrics]\nnames = ["nDCG@10"]')
    same = of(
        'windows = ["24h", "5m", "1h"]\n[kafka]\ntopics = ["b", "a"]\n'
        '[metrics]\nnames = ["nDCG(gain=exponential)@10"]\nmax_grade = 3\nrelevant_from = 1.0'
    )
    assert namespace_hash(plain) == namespace_hash(same)
    assert restarting_keys(plain, same) == []


@given(st.integers(0, 366 * 86_400_000))
def test_durations_read_back_equal(length_ms: int) -> None:
    assert duration_ms(duration_text(length_ms)) == length_ms


@pytest.mark.parametrize(
    ("value", "expected"),
    [("90s", 90_000), ("1h30m", 5_400_000), ("0.5s", 500), ("7d", 604_800_000), (2.5, 2_500)],
)
def test_durations_take_units(value: object, expected: int) -> None:
    assert duration_ms(value) == expected


@pytest.mark.parametrize("value", ["", "5", "5 m", "-5m", "5w", "m", "5m5", True, None, -1, [1]])
def test_durations_refuse_the_rest(value: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        duration_ms(value)


@pytest.mark.parametrize("url", ["redis://h", "redis://h/", "rediss://h/15", "redis://h?db=3"])
def test_a_database_is_a_number_or_left_out(url: str) -> None:
    assert of(f'[redis]\nurl = "{url}"').redis.url.reveal() == url
    assert of('[redis]\nurl = "redis+sentinel://h/main"').redis.url.reveal().endswith("/main")


SHOWN_LISTS: Final = '[events]\nformat = "ubi"\nubi_lists = "shown"'


def test_lists_of_what_was_shown_are_another_namespace() -> None:
    logged, shown = of('[events]\nformat = "ubi"'), of(SHOWN_LISTS)
    assert namespace_hash(logged) != namespace_hash(shown)
    assert restarting_keys(logged, shown) == ["events.ubi_lists"]
    assert (logged.limits.ubi_lists, shown.limits.ubi_lists) == ("logged", "shown")


def test_lists_of_what_was_shown_need_their_format() -> None:
    assert faults_of(SHOWN_LISTS.replace('"ubi"', '"native"')) == [
        'events.ubi_lists=shown: has no effect: needs events.format = "ubi"'
    ]
    assert faults_of(SHOWN_LISTS.replace("shown", "seen")) == [
        "events.ubi_lists=seen: must be one of logged, shown"
    ]


SOURCES = """
[[sources]]
topic = "events"
preset = "metarank"
"""


@pytest.mark.parametrize("join", ["", SOURCES], ids=["native", "sources"])
def test_a_process_works_under_the_layout_of_another_configuration(join: str) -> None:
    old = load(f'[metrics]\nnames = ["RR@10"]\n{join}', {}, "test")
    more = '[metrics]\nnames = ["P@5"]\nrelevant_from = 2\n[segments]\ngroupings = [["device"]]\n'
    new = load(more + join, {}, "test")
    worked = under_layout(old, layout_of(new))
    assert layout_of(worked).digest == layout_of(new).digest and worked.plan == new.plan
    assert worked.limits == new.limits and namespace(worked) == namespace(old)


def test_base_panes_are_those_of_the_join_under_any_layout() -> None:
    short = of('windows = ["5m", "1h"]')
    long = of('windows = ["1h"]\n[attribution]\npane = "10s"')
    assert namespace(short) == namespace(long)
    assert under_layout(short, layout_of(long)).plan == long.plan
    assert under_layout(long, layout_of(short)).plan == short.plan


def test_an_experiment_counts_anew_where_its_metrics_mean_something_else() -> None:
    def digest(more: str, metric: str = "P@5") -> str:
        toml = f'[metrics]\nnames = ["{metric}"]\n{more}\n[experiments.x]\ncontrol = "a"\n'
        tracking = load(toml, {}, "test").tracking
        assert tracking is not None
        return tracking.digests()["x"]

    assert digest("") != digest("relevant_from = 2")
    weights = '\n[propensities.tables.web]\nversion = "1"\nranks = [1.0, {}]\n'
    digests = [digest(weights.format(second), "IPS-P@5") for second in (0.5, 0.4, 0.5)]
    assert digests[0] == digests[2] != digests[1]


def test_sentinels_may_have_ipv6_addresses() -> None:
    url = "redis+sentinel://u:p@a:1,[::1]:3,[::2]/main?db=2"
    parts, netloc = split_address(url)
    assert (parts.scheme, netloc) == ("redis+sentinel", "u:p@a:1,[::1]:3,[::2]")
    assert (parts.path, parts.query) == ("/main", "db=2")
    assert split_address("redis")[0].scheme == ""


def test_what_a_stage_cannot_divide_is_refused() -> None:
    rekey = '[kafka]\nlanes = "rekey"\ntopics = ["a"]\n'
    assert of(rekey).is_rekeyed and of(rekey).start is LogEnd.EARLIEST
    text = f'{rekey}[rekey]\ntopic = "a"\n[attribution]\njoin = "id, else last_touch"'
    assert faults_of(text) == [
        'attribution.join=id, else last_touch: must be "id" or "last_touch" with kafka.lanes ='
        ' "rekey"',
        "rekey.topic=a: must not be an input topic (kafka.topics)",
    ]
    avro = '[kafka]\nlanes = "rekey"\n[[sources]]\ntopic = "a"\npreset = "segment"\ncodec = "avro"'
    refused = 'kafka.lanes=rekey: must not be "rekey" where a source has a codec'
    assert any(fault.startswith(refused) for fault in faults_of(avro))


def test_commands_read_the_inputs_of_a_stage_as_one_lane() -> None:
    config = of('[kafka]\nlanes = "rekey"')
    (topic,) = lane_topics(config)
    assert topic == f"relevanced-rekeyed-{namespace_hash(config)}"
    assert lane_topics(config.of_inputs) == config.kafka.topics
    assert config.of_inputs.kafka.lanes == "one" and of().of_inputs == of()
