"""The interface as a page to read, made from the OpenAPI document alone: no script, nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Json = Mapping[str, Any]

STYLE = """
  :root { color-scheme: light dark; --line: #8886; --soft: #8881; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
  code, pre { font: 0.9rem/1.5 ui-monospace, monospace; }
  pre { background: var(--soft); padding: 0.7rem; overflow-x: auto; }
  .scroll { overflow-x: auto; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
  summary { cursor: pointer; padding: 0.3rem 0; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def docs_page(document: Json) -> bytes:
    """The page."""
    title = escape(document["info"]["title"])
    operations = [
        _operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = [_schema(name, schema) for name, schema in document["components"]["schemas"].items()]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{escape(document["info"]["description"])}</p>
<p><a href="/">Try it</a>, or make a client from <a href="/openapi.json">the OpenAPI document</a>.</p>
{"".join(operations)}
<h2>Schemas</h2>
{"".join(schemas)}
</body>
</html>
""".encode()


def _operation(path: str, method: str, operation: Json) -> str:
    parts = [f'<h2 id="{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></h2>']
    parts.append(f"<p>{escape(operation['summary'])}. {escape(operation.get('description', ''))}</p>")
    parameters = operation.get("parameters", ())
    if parameters:
        rows = [(each["name"], each["description"], _allowed(each["schema"])) for each in parameters]
        parts.append(_table(("In the address", "Meaning", "Allowed"), rows))
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body: <code>{escape(media)}</code>, {_linked(content['schema'])}</p>")
        if "example" in content:
            body = json.dumps(content["example"])
            command = f"curl -H 'content-type: {media}' http://HOST:PORT{path} -d '{body}'"
            parts.append(f"<pre>{escape(command)}</pre>")
    parts.append("<p>Answers:</p>")
    answers = [
        (status, answer["description"], ", ".join(map(_content, answer.get("content", {}).items())))
        for status, answer in operation["responses"].items()
    ]
    parts.append(_table(("Status", "Meaning", "Content"), answers, linked=True))
    return "\n".join(parts)


def _content(item: tuple[str, Json]) -> str:
    media, content = item
    return _linked(content["schema"]) if "schema" in content else escape(media)


def _schema(name: str, schema: Json) -> str:
    about = f": {escape(schema['description'])}" if "description" in schema else ""
    required = schema.get("required", ())
    rows = [
        (
            f"{property_name}{' (required)' if property_name in required else ''}",
            value.get("description", ""),
            _allowed(value),
            json.dumps(value["default"]) if "default" in value else "",
        )
        for property_name, value in schema.get("properties", {}).items()
    ]
    choices = [_linked(each) for each in schema.get("oneOf", ())]
    body = _table(("Name", "Meaning", "Allowed", "Default"), rows) if rows else f"<p>One of {', '.join(choices)}</p>"
    return f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code>{about}</summary>{body}</details>'


def _linked(schema: Json) -> str:
    """A schema by its name, with a link to it; one without a name by what it allows."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name:
        return f'<a href="#schema-{escape(name)}"><code>{escape(name)}</code></a>'
    return escape(_allowed(schema))


def _allowed(schema: Json) -> str:
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "oneOf" in schema or "anyOf" in schema:
        return " or ".join(_allowed(each) for each in schema.get("oneOf", schema.get("anyOf", ())))
    types = schema.get("type", "any")
    said = types if isinstance(types, str) else " or ".join(types)
    if said == "object" and schema.get("required"):
        said += f" with {', '.join(schema['required'])}"
    bounds = [f"{word} {schema[key]}" for word, key in (("from", "minimum"), ("to", "maximum")) if key in schema]
    longest = [f"at most {schema['maxItems']} entries"] if "maxItems" in schema else []
    return " ".join([said, *bounds, *longest])


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], linked: bool = False) -> str:
    """A table of plain texts; where `linked`, the last column is HTML already."""
    lines = ["<tr>" + "".join(f"<th>{heading}</th>" for heading in headings) + "</tr>"]
    for row in rows:
        cells = [escape(cell) if place < len(row) - 1 or not linked else cell for place, cell in enumerate(row)]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'
