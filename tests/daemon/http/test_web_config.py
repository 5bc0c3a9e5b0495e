"""The web configuration file: what is read, and that faults show no secret."""

import base64
import hashlib

import pytest

from relevanced.daemon.config import ConfigError
from relevanced.daemon.http import (
    BCRYPT_COSTS,
    Tls,
    WebConfig,
    find_crypt,
    matches,
    needs_crypt,
    parse,
    refusal,
)

BCRYPT = "$2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi"
"""of `relevanced`"""
TLS = "cert_file: c.pem, key_file: c.key"


def scrypt(password: str, cost_log2: int = 4) -> str:
    def text(value: bytes) -> str:
        return base64.b64encode(value).decode().rstrip("=")

    salt = b"sixteen bytes, ok"
    key = hashlib.scrypt(password.encode(), salt=salt, n=1 << cost_log2, r=8, p=1, dklen=32)
    return f"$scrypt$ln={cost_log2},r=8,p=1${text(salt)}${text(key)}"


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return caught.value.faults


@pytest.mark.parametrize("text", ["", "# only a comment", "tls_server_config:", "{}", "---"])
def test_an_empty_file_protects_nothing(text: str) -> None:
    assert parse(text) == WebConfig()


def test_a_whole_file_is_read() -> None:
    found = parse(f"""
tls_server_config:
  cert_file: server.pem
  key_file: "server.key"
  client_ca_file: ca.pem
  client_auth_type: RequireAndVerifyClientCert
  min_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: no
  curve_preferences:
    - CurveP384
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny, Content-Security-Policy: ""}}
basic_auth_users:
  on: {BCRYPT}
  007: '{scrypt("x")}'
""")
    suites = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)
    verifying = "RequireAndVerifyClientCert"
    assert found.tls == Tls(
        "server.pem",
        "server.key",
        "ca.pem",
        verifying,
        "TLS13",
        "TLS13",
        suites,
        False,
        ("CurveP384",),
    )
    assert found.headers == {"X-Frame-Options": "deny"}
    assert {user: hashed.reveal() for user, hashed in found.users.items()} == {
        "on": BCRYPT,
        "007": scrypt("x"),
    }


def test_every_fault_is_reported_at_once() -> None:
    found = faults(
        "tls_server_config: {cert_file: '', min_version: TLS9}\nextra: 1\n"
        "http_server_config: {http2: true}\nbasic_auth_users: {bob: secret}\n"
    )
    starts = [
        "extra: unknown key: must be one of tls_server_config, http",
        "tls_server_config.cert_file=: must be a non-empty text",
        "tls_server_config.min_version=TLS9: must be one of TLS12, TLS13",
        "http_server_config.http2=true: this server speaks HTTP/1.1 only",
        "basic_auth_users.bob: must be a bcrypt hash",
    ]
    assert len(found) == len(starts)
    assert all(fault.startswith(start) for fault, start in zip(found, starts, strict=True))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{a}: [", "is not YAML: line 1, column 7"),
        ('tls_server_config: {cert_file: "a\\0b"}', "tls_server_config.cert_file=a\0b: must be a"),
        ("[1]", "file: must be a table of keys"),
        ("tls_server_config: 3", "tls_server_config: must be a table of keys"),
        ("basic_auth_users: {a: x, b: y, a: z}", "is not YAML: line 1, column 32: a key is given"),
        ("a: &x [*x]", "is not YAML: line 1"),
        ("[" * 5000, "is not YAML"),
        ("a: \x00", "is not YAML: unreadable character"),
        ("rate_limit: {burst: 1}", "rate_limit: is not supported here"),
        ("tls_server_config: {min_version: TLS12}", "tls_server_config.cert_file: must be set"),
        ("tls_server_config: {cert: abc}", "tls_server_config.cert: is not supported here: write"),
        (
            f"tls_server_config: {{{TLS}, client_allowed_sans: [a]}}",
            "tls_server_config.client_allowed_sans: is not supported here",
        ),
        (
            f"tls_server_config: {{{TLS}, client_auth_type: RequireAnyClientCert}}",
            "tls_server_config.client_auth_type=RequireAnyClientCert: a certificate that is not",
        ),
        (
            f"tls_server_config: {{{TLS}, client_auth_type: VerifyClientCertIfGiven}}",
            "tls_server_config.client_auth_type=VerifyClientCertIfGiven: needs client_ca_file",
        ),
        (
            f"tls_server_config: {{{TLS}, client_ca_file: ca.pem}}",
            "tls_server_config.client_ca_file=ca.pem: has no effect without client_auth_type",
        ),
        (
            f"tls_server_config: {{{TLS}, min_version: TLS13, max_version: TLS12}}",
            "tls_server_config.min_version=TLS13: must be <= max_version (TLS12)",
        ),
        (
            f"tls_server_config: {{{TLS}, min_version: TLS10}}",
            "tls_server_config.min_version=TLS10: is no longer safe",
        ),
        (
            f"tls_server_config: {{{TLS}, cipher_suites: [RC4]}}",
            "tls_server_config.cipher_suites=RC4: must be one of TLS_AES_128_GCM_SHA256, ",
        ),
        (
            f"tls_server_config: {{{TLS}, max_version: TLS12, "
            "cipher_suites: [TLS_AES_128_GCM_SHA256]}",
            'tls_server_config.cipher_suites=["TLS_AES_128_GCM_SHA256"]: none of them is a suite',
        ),
        (
            f"tls_server_config: {{{TLS}, curve_preferences: [X25519, CurveP256]}}",
            'tls_server_config.curve_preferences=["X25519", "CurveP256"]: must be a list of one',
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: maybe}}",
            "http_server_config.headers=X-Frame-Options: maybe: must be deny or sameorigin",
        ),
        (
            "http_server_config: {headers: {Server: me}}",
            "http_server_config.headers=Server: cannot be set: must be one of Content-Security",
        ),
        (
            'http_server_config: {headers: {X-XSS-Protection: "0\\r\\nEvil: 1"}}',
            "http_server_config.headers=X-XSS-Protection: must be a text of one line",
        ),
        (f"basic_auth_users: {{'a:b': {BCRYPT}}}", "basic_auth_users.a:b: a user name must not"),
        ("basic_auth_users: {a: [1]}", "basic_auth_users.a: must be a bcrypt hash"),
    ],
    ids=lambda text: text[:60],
)
def test_a_fault_names_its_key_and_rule(text: str, fault: str) -> None:
    assert faults(text)[0].startswith(fault)


@pytest.mark.parametrize(
    "text",
    [
        "basic_auth_users: {bob: hunter2}",
        "basic_auth_users: {bob: *hunter2}",
        "basic_auth_users: {bob: 'hunter2",
        "basic_auth_users: {bob: [hunter2]}",
        "basic_auth_users: {$hunter2: bob}",
        "basic_auth_users:\n  bob: hunter2: 1",
        "basic_auth_users:\n  bob: %hunter2",
        "basic_auth_users:\n  bob: !hunter2 x",
        "bob: hunter2",
        "tls_server_config: {key: hunter2, cert_fiel: hunter2}",
    ],
)
def test_no_fault_shows_a_secret(text: str) -> None:
    assert "hunter2" not in "\n".join(faults(text))


def test_hashes_do_not_show_themselves() -> None:
    assert BCRYPT not in repr(parse(f"basic_auth_users: {{bob: {BCRYPT}}}"))


@pytest.mark.parametrize(
    ("hashed", "rule"),
    [
        (BCRYPT, None),
        (BCRYPT.replace("$04$", f"${BCRYPT_COSTS[-1]}$"), None),
        (BCRYPT.replace("$04$", "$03$"), "the cost of a bcrypt hash must be 4 to 18"),
        (BCRYPT.replace("$04$", "$31$"), "the cost of a bcrypt hash must be 4 to 18"),
        (BCRYPT.replace("$2b$", "$2x$"), "must be a bcrypt hash"),
        (BCRYPT[:-1], "must be a bcrypt hash"),
        (BCRYPT + "\n", "must be a bcrypt hash"),
        (scrypt("x"), None),
        (scrypt("x").replace("ln=4", "ln=19"), "scrypt needs ln, r, p >= 1"),
        (scrypt("x").replace("p=1", "p=0"), "scrypt needs ln, r, p >= 1"),
        (scrypt("x")[:-1], "must be a bcrypt hash"),
    ],
)
def test_a_hash_is_checked_by_form_and_cost(hashed: str, rule: str | None) -> None:
    found = refusal(hashed)
    assert found is rule if rule is None else str(found).startswith(rule)


@pytest.mark.parametrize("kind", ["2a", "2b", "2y"])
def test_every_spelling_of_bcrypt_is_verified(kind: str) -> None:
    hashed, crypt = BCRYPT.replace("2b", kind), find_crypt()
    assert needs_crypt(hashed) and crypt is not None
    assert matches(b"relevanced", hashed, crypt)
    assert not matches(b"relevance", hashed, crypt)
    assert not matches(b"relevanced\0", hashed, crypt)


def test_scrypt_needs_no_library() -> None:
    assert not needs_crypt(scrypt("x"))
    assert matches(b"x", scrypt("x"), None) and not matches(b"y", scrypt("x"), None)
    assert not matches(b"relevanced", BCRYPT, None)


def test_a_library_without_bcrypt_is_not_used() -> None:
    assert find_crypt(("libc.so.6", "no such library")) is None
