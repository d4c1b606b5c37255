"""Verifies signatures for AWS from what arrived on the wire, written after AWS's description and not with botocore."""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import parse_qsl, quote


def signature(
    secret: str, method: str, target: str, headers: Mapping[str, str], body: bytes, names: list[str], scope: str
) -> str:
    """The signature of a request. `target`: its path and query; `names`: the signed headers; `scope`: date, region,
    service and `aws4_request`."""
    path, _, query = target.partition("?")
    date, region, service, _ = scope.split("/")
    payload = headers.get("x-amz-content-sha256") or sha256(body).hexdigest()
    if payload != "UNSIGNED-PAYLOAD" and payload != sha256(body).hexdigest():
        return "the hash of the body is wrong"
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(query, True))
    canonical = "\n".join(
        [
            method,
            path if service == "s3" else quote(path or "/", safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(headers[name].split())}" for name in names),
            "",
            ";".join(names),
            payload,
        ]
    )
    words = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256(canonical.encode()).hexdigest()]
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, "\n".join(words).encode(), "sha256").hex()


def is_signed(method: str, target: str, headers: Mapping[str, str], body: bytes, secrets: Mapping[str, str]) -> bool:
    """Whether a request carries the signature of one of these access keys."""
    kind, _, rest = headers.get("authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(",")) if kind == "AWS4-HMAC-SHA256" else {}
    key, _, scope = parts.get("Credential", "").partition("/")
    names = parts.get("SignedHeaders", "").split(";")
    if key not in secrets or not {"host", "x-amz-date"} <= set(names):
        return False
    if any(name.startswith("x-amz-") and name not in names for name in headers):
        return False
    wanted = signature(secrets[key], method, target, headers, body, names, scope)
    return hmac.compare_digest(wanted, parts["Signature"])
