"""The table as an OpenAPI 3.1 document, from the same entries and types that the server uses."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from duetime.api.endpoint import JSON, Endpoint
from duetime.api.problems import KINDS, MEDIA, ProblemDocument
from duetime.api.usage_limits import limit_of

_REF = "#/components/schemas/{name}"
_PROBLEM = {"content": {MEDIA: {"schema": {"$ref": _REF.format(name="Problem")}}}}
_IDS = {"job_id": "job", "run_id": "run", "worker_id": "wrk", "key_id": "key", "payload_id": "pay", "session_id": "ses"}

DESCRIPTION = """\
Durable jobs for many tenants. Every request under /v1 carries an API key: `Authorization: Bearer dt_live_…`.
A root key acts in the tenant that the header `Duetime-Tenant` names, or in `default`.
Errors are RFC 9457 problems with a stable `code`. Requests with unknown fields are refused;
responses may gain fields."""


def make_document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    table = list(endpoints)
    types = [kind for each in table for kind in (each.query, each.body, each.answer) if kind is not None]
    found, components = msgspec.json.schema_components([*types, ProblemDocument], ref_template=_REF)
    for schema in (*found, *components.values()):
        _as_others_read_it(schema)
    schema_of = dict(zip(map(_key, types), found, strict=False))
    components["Problem"] = components.pop("ProblemDocument")
    components["Problem"]["title"] = "Problem"
    paths: dict[str, dict[str, Any]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema_of, components)
    for each in table:
        if each.query is not None:
            components.pop(each.query.__name__, None)  # its fields are parameters
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "duetime",
            "version": version,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key: `dt_live_…`."}},
        },
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in table)],
    }


def _as_others_read_it(schema: Any) -> None:
    """Replace what msgspec writes in Python's dialect with plain JSON Schema, in place."""
    if isinstance(schema, list):
        for each in schema:
            _as_others_read_it(each)
    elif isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            schema["pattern"] = re.sub(r"\\Z$", "$", pattern)
        if schema.get("enum") == [True]:  # many generators support enumerations of strings and numbers only
            del schema["enum"]
            schema["type"] = "boolean"
        for each in schema.values():
            _as_others_read_it(each)


def statuses(endpoint: Endpoint) -> list[int]:
    """Every error status that this endpoint can return."""
    found = set(endpoint.problems)
    if endpoint.may is not None:
        found |= {401, 403, 404, 503}
    if limit_of(endpoint) is not None:
        found.add(429)
    if endpoint.query is not None:
        found.add(422)
    if endpoint.body is not None:
        found |= {400, 408, 413, 415, 422}
    if endpoint.method == "POST" and endpoint.repeats != "by nature":
        found |= {409, 422}
    return sorted(found)


def _operation(endpoint: Endpoint, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    head, _, rest = endpoint.summary.partition(". ")
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": head.rstrip("."),
        "tags": [endpoint.tag],
    }
    if rest:
        operation["description"] = endpoint.summary
    operation["security"] = [] if endpoint.may is None else [{"key": []}]
    if endpoint.may is not None:
        operation["x-duetime-action"] = endpoint.may.name.lower()
    parameters = [*_path(endpoint), *_query(endpoint, components), *_headers(endpoint)]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        schema = schema_of[_key(endpoint.body)]
        operation["requestBody"] = {
            "required": not endpoint.body_optional,
            "content": _contents(endpoint, schema),
        }
        if also := [media for media in endpoint.media if media not in operation["requestBody"]["content"]]:
            operation["requestBody"]["description"] = f"Also accepted as {', '.join(also)}."
    operation["responses"] = _responses(endpoint, schema_of)
    return operation


def _path(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)} for name in endpoint.parameters
    ]


def _path_schema(name: str) -> dict[str, Any]:
    prefix = _IDS.get(name)
    if prefix is None:
        return {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$", "maxLength": 200}
    return {"type": "string", "pattern": f"^{prefix}_[0-9a-hjkmnp-tv-z]{{26}}$"}


def _query(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    schema = components[endpoint.query.__name__]
    return [
        _parameter(name, "query", property, required=name in schema.get("required", ()))
        for name, property in schema["properties"].items()
    ]


def _parameter(name: str, place: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    # A query parameter is omitted, never null.
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if choices:
        kept = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        schema = kept | (choices[0] if len(choices) == 1 else {"anyOf": choices})
    described = {key: value for key, value in schema.items() if key != "description"}
    parameter = {"name": name, "in": place, "required": required, "schema": described}
    if "description" in schema:
        parameter["description"] = schema["description"]
    return parameter


def _headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    text = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return [
        {
            "name": name,
            "in": "header",
            "required": name in endpoint.required_headers,
            "description": meaning,
            "schema": text,
        }
        for name, meaning in endpoint.headers.items()
    ]


def _contents(endpoint: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    """The body as JSON or as bytes, which generators support; other media types are only described."""
    if endpoint.body is bytes:
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {media: {"schema": schema} for media in endpoint.media if media in (JSON, "application/merge-patch+json")}


def _responses(endpoint: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if endpoint.answer is not None:
        answer["content"] = {endpoint.answers_with: {"schema": schema_of[_key(endpoint.answer)]}}
    elif endpoint.answers_with != JSON:
        answer["content"] = {endpoint.answers_with: {"schema": {"type": "string"}}}
    responses = {str(endpoint.status): answer}
    for status in statuses(endpoint):
        titles = [f"`{kind.code}`: {kind.title}." for kind in KINDS if kind.status == status]
        responses[str(status)] = {"description": " ".join(titles), **_PROBLEM}
    return responses


def _key(kind: Any) -> Any:
    return kind if isinstance(kind, type) else repr(kind)
