"""Real certificates, made by the `openssl` command: an authority, and what it signs."""

import shutil
import subprocess
from pathlib import Path

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
DAYS = "2"


class Authority:
    """A certificate authority of the test's own. Files are NAME.pem and NAME.key. `lax`: without
    what Python asks for from 3.13 on."""

    def __init__(self, directory: Path, name: str = "ca", *, lax: bool = False) -> None:
        assert shutil.which("openssl"), "openssl is not on PATH (Debian: apt-get install openssl)"
        directory.mkdir(exist_ok=True)
        self.directory, self.name = directory, name
        self.certificate = directory / f"{name}.pem"
        self.key = directory / f"{name}.key"
        files = ("-keyout", str(self.key), "-out", str(self.certificate))
        usage = () if lax else ("-addext", "keyUsage=critical,keyCertSign")
        made = ("-x509", "-nodes", *CURVE, "-subj", f"/CN={name}", "-days", DAYS, *usage)
        openssl("req", *made, *files)

    def server(self, name: str, *, also_client: bool = False) -> tuple[Path, Path]:
        """Certificate and key for 127.0.0.1; `also_client`: of a server that calls others."""
        usage = "serverAuth,clientAuth" if also_client else "serverAuth"
        return self._signed(name, f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage={usage}\n")

    def client(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of a client."""
        return self._signed(name, "extendedKeyUsage=clientAuth\n")

    def _signed(self, name: str, extensions: str) -> tuple[Path, Path]:
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        request, details = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        details.write_text(f"{extensions}authorityKeyIdentifier=keyid\n")
        files = ("-keyout", str(key), "-out", str(request))
        openssl("req", "-new", "-nodes", *CURVE, "-subj", f"/CN={name}", *files)
        signer = ("-CA", str(self.certificate), "-CAkey", str(self.key), "-CAcreateserial")
        signed = ("-in", str(request), "-out", str(certificate), "-extfile", str(details))
        openssl("x509", "-req", "-days", DAYS, *signer, *signed)
        return certificate, key


def encrypt(key: Path, password: str) -> None:
    """Put a password on the key."""
    openssl("ec", "-aes256", "-in", str(key), "-out", str(key), "-passout", f"pass:{password}")


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
