"""Holds recorded answers against GitHub's published OpenAPI document.

OPENAPI: the document. EXCHANGES: a list of {method, path, status, body}, where the path is the document's. Prints what
of an answer is not as described, and then ends with 1.
"""

import json
import os
import sys

from jsonschema import Draft4Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

def plain(node):
    """As JSON Schema: what may be null says so in OpenAPI's own way, also beside values that are named."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    # What a discriminator leads to is among the forms anyway.
    own = {key: plain(value) for key, value in node.items() if key != "discriminator"}
    if own.get("nullable") is True:
        del own["nullable"]
        return {"anyOf": [own, {"type": "null"}]}
    return own


with open(os.environ["OPENAPI"], encoding="utf-8") as file:
    document = plain(json.load(file))
with open(os.environ["EXCHANGES"], encoding="utf-8") as file:
    exchanges = json.load(file)

registry = Registry().with_resource("urn:github", Resource(contents=document, specification=DRAFT4))


def resolve(node):
    while "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def absolute(node):
    """References that are found from anywhere."""
    if isinstance(node, dict):
        return {
            key: "urn:github" + value if key == "$ref" and value.startswith("#") else absolute(value)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [absolute(item) for item in node]
    return node


def faults(exchange):
    at = f"{exchange['method']} {exchange['path']} {exchange['status']}"
    operation = document["paths"].get(exchange["path"], {}).get(exchange["method"].lower())
    if operation is None:
        return [f"{at}: there is no such operation"]
    answer = operation["responses"].get(str(exchange["status"]))
    if answer is None:
        return [f"{at}: there is no such answer"]
    content = resolve(answer).get("content", {}).get("application/json")
    if content is None:
        return [] if exchange["body"] is None else [f"{at}: it has no body"]
    validator = Draft4Validator(absolute(content["schema"]), registry=registry)
    found = []
    for error in validator.iter_errors(exchange["body"]):
        # Of several forms that may be meant, the one that comes nearest.
        deepest = min(error.context, key=lambda e: -len(e.absolute_path)) if error.context else error
        place = ".".join(str(part) for part in deepest.absolute_path)
        found.append(f"{at} {place}: {deepest.message[:200]}")
    return found


checked = 0
wrong = []
for exchange in exchanges:
    checked += 1
    wrong.extend(faults(exchange))
if checked == 0:
    sys.exit("no answers were recorded")
if wrong:
    sys.exit("\n".join(sorted(set(wrong))))
