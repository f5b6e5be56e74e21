"""The contract with receivers as JSON Schema (draft 2020-12) and AsyncAPI 3.

The schemas are made from the tables of `grammar` and allow further fields (docs/contracts.md). Rules that
relate two numbers or messages have names in `RULES`, and cases in docs/contracts/conformance.json.
"""

from collections.abc import Mapping
from typing import Any

from meteragent.domain.metric import Metric
from meteragent.domain.shapes import SHAPES, Space
from meteragent.wire import grammar, shapes

DIALECT = "https://json-schema.org/draft/2020-12/schema"

RULES = {
    "json": "The message is one JSON object.",
    "version": "`v` is 1. A message of another version is not read at all.",
    "field": "The message is as long as its table allows, and each field that the schema requires is present"
    " and has the type, the form and the bounds of the schema.",
    "id": "A descriptor's `id` is the first 8 hex digits of the SHA-256 of its canonical JSON (sorted keys,"
    " no spaces, UTF-8, numbers as received) without `id`, `meter`, `valid_from` and `store`.",
    "unknown": "`mechanism`, `metric`, `space` and `rounding` have values that this receiver knows: they"
    " decide what the numbers mean.",
    "terms": "The fields of a descriptor agree: `epsilon` times `radius` is `level`; `hides_wh` is `radius`"
    " as an energy over the slot; `sd` and `ci95` follow from the noise, within 0.1%; `n` slots fill the"
    " window; unit, kind, space and metric are compatible. The noise of a window is z quanta in its `n`"
    " slots (in one slot if `metric` is l1), with a probability in proportion to exp(-`epsilon` `quantum`"
    " max abs z). `sd` is `quantum` times the root of Var z, or of Var z + 1/6 if `rounding` is dithered."
    " `ci95` is `quantum` times the h with P(abs(z + U) <= h) = 0.95, U uniform on [-1/2, 1/2]; if dithered,"
    " times H + 1/2 for the smallest whole H with P(abs z <= H) - (P(z = H) - P(z = H + 1))/2 >= 0.95.",
    "descriptor": "The descriptor that a record names with `d` has been received.",
    "slot": "A record has the unit of its descriptor, and the duration of the descriptor's slot or, for a"
    " band or a peak, of its window.",
    "band": "A record has a band if, and only if, its descriptor has bands, and the record's band is one"
    " of them.",
    "draws": "`draws` is at least 1, and more than 1 only for a peak.",
    "lattice": "`value` is a multiple of the descriptor's `quantum`, exactly.",
    "sd": "`sd` equals the descriptor's `sd`, within 0.1%.",
    "twice": "Two records of the same meter, time and band are identical. Identical records count once.",
    "overlap": "The slots of one meter do not overlap, except for the bands of one window.",
}
"""The rules by which a receiver refuses messages, under the names that the conformance file uses."""


def _object_schema(required: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that may have further fields."""
    return {"type": "object", "required": list(required), "properties": dict(required)}


def _document(title: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"$schema": DIALECT, "title": title, "description": description, **schema}


def record_schema() -> dict[str, Any]:
    """Return the schema of a record in JSON."""
    return _document("record", "The private value of one slot.", grammar.RECORD.schema)


def descriptor_schema() -> dict[str, Any]:
    """Return the schema of a descriptor."""
    in_all = {"properties": {"metric": {"enum": [metric for metric in Metric if metric.is_sum]}}}
    metric = {"if": in_all, "then": {"required": ["in_all"]}, "else": _absence_rule("in_all")}
    schema = {
        **grammar.DESCRIPTOR.schema,
        "dependentRequired": {"meter_epsilon_per_day": ["meter_epsilon_unit"]},
        "allOf": [metric, *map(_space_rule, grammar.SENT_SPACES)],
    }
    return _document("descriptor", "The terms under which records were released.", schema)


def _space_rule(space: Space) -> dict[str, Any]:
    """Return the rule for a space's descriptors: which fields, metrics, kinds and `n` they may have."""
    row, shape = shapes.ROWS[space], SHAPES[space]
    properties: dict[str, Any] = {"metric": {"enum": [*shape.metrics]}, "kind": {"enum": sorted(shape.kinds)}}
    if not shape.has_slots:
        properties["n"] = {"const": 1}
    then = {
        "required": [*row.fields, *(["timezone"] if "bands" in row.fields else [])],
        "properties": properties,
        **_absence_rule(*(shapes.OWN_FIELDS.keys() - row.fields.keys())),
    }
    return {"if": {"properties": {"space": {"const": str(space)}}}, "then": then}


def _absence_rule(*names: str) -> dict[str, Any]:
    return {"not": {"anyOf": [{"required": [name]} for name in sorted(names)]}}


def total_schema() -> dict[str, Any]:
    """Return the schema of the running total."""
    return _document("total", "The sum of all records of a public id (sink.total).", grammar.TOTAL.schema)


def status_schema() -> dict[str, Any]:
    """Return the schema of the agent's status."""
    online = {"if": {"properties": {"status": {"const": "online"}}}, "then": {"required": ["t"]}}
    return _document(
        "status", "Whether the agent is running (sink.status).", {**grammar.STATUS.schema, **online}
    )


def prices_schema() -> dict[str, Any]:
    """Return the schema of messages with public prices, which the agent reads (window.weights.topic)."""
    time = grammar.TIME.schema
    price_per_kwh = {"type": "number", "description": "The price per kWh, in window.weights.unit."}
    price = _object_schema({"start": time, "end": time, "price": price_per_kwh})
    schema = {"anyOf": [{"$ref": "#/$defs/price"}, {"type": "array", "items": {"$ref": "#/$defs/price"}}]}
    return _document("prices", "One public price, or several.", {**schema, "$defs": {"price": price}})


def manifest_schema() -> dict[str, Any]:
    """Return the schema of the facts of `_manifest.parquet` in the output of `meteragent sanitise`."""
    form = {key: value for key, value in descriptor_schema().items() if key != "$schema"}
    count = {"type": "integer", "minimum": 0}
    name, digest = ({"type": "string", "pattern": text} for text in (r"^[\w.-]+\.parquet$", "^[0-9a-f]{64}$"))
    required = {
        "v": grammar.VERSION.schema,
        "run": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "complete": {"type": "boolean", "description": "An output that is not complete is not read."},
        "cut": {"type": "array", "description": "Where the engine cuts its files; not for readers."},
        "form": {"enum": ["wide", "long"]},
        "policy": {"type": "object"},
        "descriptors": {"type": "array", "items": {"$ref": "#/$defs/descriptor"}},
        "keys": {"type": "array", "items": {"type": "string"}},
        "windows": _object_schema({"released": count, "refused": count}),
        "parts": {
            "type": "array",
            "items": _object_schema({"name": name, "rows": count, "sha256": digest}),
            "description": "All files of the output; the digest is of their bytes.",
        },
    }
    schema = {**_object_schema(required), "$defs": {"descriptor": form}}
    return _document("manifest", "The content of an archive's output, and the terms of its values.", schema)


def all_schemas() -> dict[str, dict[str, Any]]:
    """Return all schemas by name."""
    return {
        "record": record_schema(),
        "descriptor": descriptor_schema(),
        "total": total_schema(),
        "status": status_schema(),
        "prices": prices_schema(),
        "manifest": manifest_schema(),
    }


_CHANNELS: dict[str, tuple[str, tuple[str, ...], str, bool]] = {
    "records": (
        "{sinkTopic}",
        ("record",),
        "One for each slot, at QoS 1; with sink.retain, the newest is retained.",
        False,
    ),
    "descriptor": (
        "{sinkTopic}/privacy",
        ("descriptor",),
        "The latest terms, retained. An empty message withdraws them.",
        True,
    ),
    "descriptorById": ("{sinkTopic}/privacy/{d}", ("descriptor",), "The terms of each id, retained.", True),
    "total": ("{sinkTopic}/total", ("total",), "With sink.total: the running total, at QoS 1.", False),
    "status": (
        "{statusTopic}",
        ("status",),
        "With sink.status: the status, retained, every minute; the last will says offline.",
        True,
    ),
    "prices": ("{priceTopic}", ("prices",), "With window.weights.topic: public prices, to the agent.", False),
}
"""The channels: for each, its address, its messages, its description, and whether messages are retained."""

_PARAMETERS = {
    "sinkTopic": "The meter's topic: sink.topic, with {meter} replaced by the meter's public id.",
    "d": "The id of a descriptor, as in the field d of records.",
    "statusTopic": "sink.status.",
    "priceTopic": "window.weights.topic.",
}


VERSION = "1.0.0"
"""The version of the contract: the first number is the `v` of messages, and the second counts additions."""


def asyncapi_document() -> dict[str, Any]:
    """Return the AsyncAPI 3 description of the topics, which refers to the schemas as files in its folder."""
    channels, operations = {}, {}
    for name, (address, messages, description, retain) in _CHANNELS.items():
        parameters = {
            key: {"description": text} for key, text in _PARAMETERS.items() if f"{{{key}}}" in address
        }
        channels[name] = {
            "address": address,
            "description": description,
            "parameters": parameters,
            "messages": {item: {"$ref": f"#/components/messages/{item}"} for item in messages},
        }
        action = "receive" if name == "prices" else "send"
        operations[name] = {"action": action, "channel": {"$ref": f"#/channels/{name}"}}
        if action == "send":
            binding = {"mqtt": {"qos": 1, "retain": retain, "bindingVersion": "0.2.0"}}
            operations[name]["bindings"] = binding
    messages_by_name = {
        name: {
            "title": schema["title"],
            "summary": schema["description"],
            "payload": {
                "schemaFormat": "application/schema+json;version=draft-2020-12",
                "schema": {"$ref": f"./{name}.schema.json"},
            },
        }
        for name, schema in all_schemas().items()
        if name != "manifest"
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "meteragent",
            "version": VERSION,
            "description": "What a meteragent sends to receivers, and the prices that it reads."
            " `send` means that the agent sends.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages_by_name},
    }
