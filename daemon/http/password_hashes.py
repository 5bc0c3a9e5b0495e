"""The forms of password hashes that are accepted. Pure.

bcrypt, as `htpasswd -nBC 10 USER` writes it, or, for systems without bcrypt,
`$scrypt$ln=15,r=8,p=1$SALT$KEY`: cost 2^ln, a salt and a key of 32 bytes in base64 without `=`.
"""

import re
from typing import Final

BCRYPT: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
SCRYPT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})"
    r"\$((?:[A-Za-z0-9+/]{2,4}){6,16})\$([A-Za-z0-9+/]{43})"
)
BCRYPT_COSTS: Final = range(4, 19)
"""Each step doubles the time: 10 takes 0.06 s, 18 takes 15 s."""
SCRYPT_BYTES: Final = 1 << 28
"""Upper bound of 128 · r · p · 2^ln, the bytes that a check needs: at r=8 it takes about 1 s."""
FORMS: Final = "must be a bcrypt hash ($2y$10$…) or $scrypt$ln=15,r=8,p=1$SALT$KEY"


def refusal(hashed: object) -> str | None:
    """Why this hash is not accepted; None if it is. The message never contains the hash."""
    bcrypt, scrypt = BCRYPT.fullmatch(str(hashed)), SCRYPT.fullmatch(str(hashed))
    if bcrypt is not None:
        bounds = f"{BCRYPT_COSTS[0]} to {BCRYPT_COSTS[-1]}"
        too_costly = int(bcrypt[1]) not in BCRYPT_COSTS
        return f"the cost of a bcrypt hash must be {bounds}" if too_costly else None
    if scrypt is None:
        return FORMS
    cost_log2, block, parallel = (int(number) for number in scrypt.groups()[:3])
    if min(cost_log2, block, parallel) < 1 or 128 * block * parallel << cost_log2 > SCRYPT_BYTES:
        return f"scrypt needs ln, r, p >= 1 and 128 * r * p * 2^ln <= {SCRYPT_BYTES}"
    return None
