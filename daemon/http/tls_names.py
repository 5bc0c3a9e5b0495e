"""Names of curves and cipher suites: Go's, as in web configuration files, and OpenSSL's. Pure."""

from typing import Final

CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
"""Go's names → OpenSSL's names."""
TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Always on with TLS 1.3, whatever else is listed, as in Go."""
TLS12_SUITES: Final = {
    f"TLS_ECDHE_{key}_WITH_{long}": f"ECDHE-{key}-{short}"
    for key in ("ECDSA", "RSA")
    for long, short in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Go's names of the suites with forward secrecy → OpenSSL's names."""
