"""The contract with receivers as JSON Schema (draft 2020-12) and AsyncAPI 3.

Theory of operation. Each schema describes the messages of this version and allows further fields, because
later versions add some (docs/contracts.md). A schema cannot express rules that relate two numbers or two
messages, such as how a descriptor's id is computed or that a record's value lies on the lattice. These rules
have names in `RULES`, and the conformance file, docs/contracts/conformance.json, has cases for each.

The names of kinds, metrics, spaces, roundings and units are taken from `domain`, so the schemas always
include all of them. `consume` reads exact numbers and durations with the patterns of this module. A test
validates the messages that `descriptor`, `record`, `senml`, `total` and `status` write.
"""

from collections.abc import Mapping
from typing import Any, get_args

from meteragent.domain.grid import RFC3339
from meteragent.domain.shape import Metric, Space
from meteragent.domain.terms import Clock, Rounding
from meteragent.domain.units import UNIT_FACTOR, Kind
from meteragent.domain.weights import WeightSource

DIALECT = "https://json-schema.org/draft/2020-12/schema"

EXACT = r"-?\d{1,60}(\.\d{1,30}|/\d{1,60})?"
"""The pattern of an exact number as text: an integer, a decimal or a ratio of integers."""

DURATION = r"PT(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,3})?)S)?"
"""The pattern of a duration in hours, minutes and seconds. It also matches a duration of 0, and `PT` alone,
which is not a duration."""

RULES = {
    "json": "The message is one JSON object, or one SenML pack of one record.",
    "version": "`v` is 1. A message of another version is not read at all.",
    "field": "Each field that the schema requires is present and has the type and the form of the schema.",
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

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_TIME = {"type": "string", "pattern": f"^{RFC3339.pattern}$", "examples": ["2026-11-20T12:00:00Z"]}
_DURATION = {"type": "string", "pattern": f"^{DURATION}$", "minLength": 4, "examples": ["PT30M"]}
_EXACT = {"type": "string", "pattern": f"^{EXACT}$", "examples": ["1/220"]}
_ID = {"type": "string", "pattern": "^[0-9a-f]{8}$", "examples": ["9f5da9f2"]}
_UNIT = {"anyOf": [{"enum": list(UNIT_FACTOR)}, {"type": "string", "pattern": "^[A-Z]{3}$"}]}
_VERSION = {"const": 1, "description": "The version of the contract."}
_METER = {**_TEXT, "description": "The public id of the meter: its name, or its pseudonym."}
_SD = {"type": "number", "exclusiveMinimum": 0}
_BAND = {"type": "string", "minLength": 1}
_DRAWS = {"type": "integer", "minimum": 1}


def _field(schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object that may have further fields."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _document(title: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"$schema": DIALECT, "title": title, "description": description, **schema}


def record() -> dict[str, Any]:
    """Return the schema of a record in JSON."""
    required = {
        "v": _VERSION,
        "meter": _METER,
        "t": _field(_TIME, "The start of the slot or, for a band or a peak, of the window."),
        "for": _field(_DURATION, "The duration of the slot or, for a band or a peak, of the window."),
        "value": _field(_NUMBER, "The private value, a multiple of the quantum. Negative values are normal."),
        "unit": _field(_UNIT, "W or kW (means), Wh or kWh (energies), or the currency of amounts."),
        "sd": _field(_SD, "The standard deviation of the noise, in the unit, to four digits."),
        "d": _field(_ID, "The id of the descriptor."),
    }
    optional = {
        "band": _field(_BAND, "The band of a mean day or of a tariff."),
        "draws": _field(_DRAWS, "The number of draws of noise in a peak."),
    }
    return _document("record", "The private value of one slot.", _object(required, optional))


def record_senml() -> dict[str, Any]:
    """Return the schema of a record as a SenML pack (RFC 8428), as an agent sends it or already resolved."""
    description = "The private value of one slot as a SenML pack, as it is sent or resolved (RFC 8428, 4.6)."
    forms = [_pack(is_resolved=False), _pack(is_resolved=True)]
    return _document("record in SenML", description, {"type": "array", "minItems": 4, "anyOf": forms})


def _pack(*, is_resolved: bool) -> dict[str, Any]:
    """Return the schema of a pack; if it is resolved, each entry has the whole name and the time."""
    head = "/" if is_resolved else "^"
    time = _field(_NUMBER, "The start of the slot, in Unix seconds.")
    times = {"t": time} if is_resolved else {}

    def entry(suffix: str, **fields: Any) -> dict[str, Any]:
        """Return the schema of an entry whose name ends with `suffix`."""
        name = {"type": "string", "pattern": f"{head}(power|energy){suffix}$"}
        return _object({"n": name, **times, **fields})

    version = {"bver": {"enum": [10, 26]}}
    name = {"type": "string", "pattern": "/$", "description": "The meter's name and a slash."}
    base = {} if is_resolved else {"bn": name, "bt": time}
    value = entry("", u=_UNIT, v=_NUMBER)
    value["required"] += list(base)
    value["properties"] |= base | version
    entries = {
        "for": entry("_for", u={"const": "s"}, v={"type": "number", "exclusiveMinimum": 0}),
        "sd": entry("_sd", u=_UNIT, v=_SD),
        "terms": entry("_terms", vs=_ID),
    }
    band, draws = entry("_band", vs=_BAND), entry("_draws", v=_DRAWS)
    required = [{"contains": item, "minContains": 1, "maxContains": 1} for item in entries.values()]
    items = {"anyOf": [*entries.values(), band, draws]}
    return {"prefixItems": [value], "items": items, "allOf": required}


def descriptor() -> dict[str, Any]:
    """Return the schema of a descriptor."""
    required = {
        "v": _VERSION,
        "id": _field(_ID, "The hash of the facts: see docs/contracts.md, rule `id`."),
        "meter": _METER,
        "metric": _field(
            {"enum": [*Metric]}, "linf: the radius holds in each slot; l1: in all slots together."
        ),
        "epsilon": _field(_EXACT, "level / radius."),
        "epsilon_unit": _field({"type": "string", "pattern": "^1/"}, "1 divided by the unit of the values."),
        "level": _field(_EXACT, "The bound on the privacy loss between loads that differ by `radius`."),
        "radius": _field(_EXACT, "The distance between slot values for which `level` holds, in their unit."),
        "hides_wh": _field(_EXACT, "The energy by which a load may change and still be hidden at the level."),
        "n": {"type": "integer", "minimum": 1, "description": "The number of slots in a window."},
        "quantum": _field(_EXACT, "The step of the lattice of values, in their unit."),
        "mechanism": _field(
            {"const": "linf-laplace"}, "The distribution of the noise: see docs/contracts.md, rule `terms`."
        ),
        "length": _field(_DURATION, "The duration of the window."),
        "step": _field(_DURATION, "The duration of a slot, of the shortest band, or of a peak's part."),
        "kind": _field({"enum": [*Kind]}, "The meaning of the meter's readings."),
        "unit": _field(_UNIT, "The unit of the values."),
        "sd": _field(_SD, "The standard deviation of the noise of a value, dither included."),
        "ci95": _field(_SD, "The half-width of the interval that covers the value with probability 0.95."),
        "level_per_day": _field(_EXACT, "The sum of the levels of a day's windows."),
        "unbiased": _field(_TEXT, "What the value estimates without bias, in words for people."),
        "schedule": _field(
            {"enum": [*Clock, "archive"]}, "The clock that closes windows; archive: no clock."
        ),
        "noise": _field(
            {"enum": ["os", "prf"]}, "os: the system's random numbers; prf: from a key (archives)."
        ),
        "invariants": _field({"type": "array"}, "What is released exactly, without noise: nothing."),
        "valid_from": _field(_TIME, "The start of the first window under these terms."),
    }
    shapes = [_space(space) for space in Space]
    without_space = {
        "if": {"not": {"required": ["space"]}},
        "then": _absent(*_OWN_FIELDS),
    }
    in_all = {"properties": {"metric": {"const": str(Metric.L1)}}}
    metric = {"if": in_all, "then": {"required": ["in_all"]}, "else": _absent("in_all")}
    schema = {
        **_object(required, _optional_facts()),
        "dependentRequired": {"meter_epsilon_per_day": ["meter_epsilon_unit"], "bands": ["timezone"]},
        "allOf": [metric, without_space, *shapes],
    }
    return _document("descriptor", "The terms under which records were released.", schema)


def _optional_facts() -> dict[str, Any]:
    """Return the schemas of the optional fields of descriptors."""
    weights = {"bound": _EXACT, "default": _EXACT, "unit": _UNIT, "source": {"enum": [*WeightSource]}}
    readings = {"every": {"type": "string", "pattern": f"^{DURATION}$"}, "dead_band": _EXACT}
    band = {"anyOf": [_DURATION, {"const": "PT0S"}]}
    return {
        "preset": _field(_TEXT, "The name under which the configuration chose the radius; for people."),
        "timezone": _field(
            _TEXT, "The zone of the local calendar; without this field, windows follow the Unix epoch."
        ),
        "rounding": _field(
            {"enum": [*get_args(Rounding)]}, "The rounding of values; without this field, half-up."
        ),
        "space": _field({"enum": [*Space]}, "The kind of slots; without this field, linf."),
        "reconstruction": _field({"const": "steps"}, "A curve is constant within each slot."),
        "each_draw": _field({"const": True}, "A peak is charged for each draw of its noise."),
        "bands": _field(
            {"type": "object", "minProperties": 1, "additionalProperties": band},
            "The name of each band, and its duration in a window.",
        ),
        "weights": _field(_object(weights), "Prices per kWh: values are amounts in `unit`."),
        "threshold_w": _field(_EXACT, "Values are the energy above this power."),
        "in_all": _field({"const": True}, "The radius bounds the change in all slots together (l1)."),
        "meter_epsilon_per_day": _field(_EXACT, "The charge of a day over all streams of the meter."),
        "meter_epsilon_unit": _field({"const": "1/W"}, "The unit of `meter_epsilon_per_day`."),
        "readings": _field(
            {**_object({}, {**readings, "counters": {"type": "integer", "minimum": 2}})},
            "How readings follow the load.",
        ),
        "level_of_loads": _field(
            _EXACT, "The level for a change in the load, which readings follow in steps."
        ),
        "store": _field(_TEXT, "A mark that tells the stores of different agents apart."),
    }


_SPACE_FIELDS: dict[Space, tuple[str, ...]] = {
    Space.LINF: (),
    Space.CURVE: ("reconstruction",),
    Space.PROFILE: ("bands", "timezone"),
    Space.BANDS: ("bands", "timezone", "in_all"),
    Space.WEIGHTED: ("weights", "in_all"),
    Space.PEAK: ("each_draw",),
    Space.ABOVE: ("threshold_w",),
}
_OWN_FIELDS = {"bands", "weights", "threshold_w", "each_draw"}
_ONE_SLOT = {Space.WEIGHTED, Space.PEAK, Space.ABOVE}


def _space(space: Space) -> dict[str, Any]:
    """Return the rule for a space's descriptors: required and forbidden fields, and `n` if it must be 1."""
    fields = _SPACE_FIELDS[space]
    foreign_fields = _OWN_FIELDS - set(fields)
    then: dict[str, Any] = {"required": list(fields), **_absent(*foreign_fields)}
    if space in _ONE_SLOT:
        then["properties"] = {"n": {"const": 1}}
    return {"if": {"required": ["space"], "properties": {"space": {"const": str(space)}}}, "then": then}


def _absent(*names: str) -> dict[str, Any]:
    return {"not": {"anyOf": [{"required": [name]} for name in sorted(names)]}}


def total() -> dict[str, Any]:
    """Return the schema of the running total."""
    required = {
        "v": _VERSION,
        "meter": _METER,
        "t": _field(_TIME, "The end of the newest slot in the total."),
        "value": _field(_NUMBER, "The energy since `since`. It may decrease."),
        "unit": {"enum": ["Wh", "kWh"]},
        "sd": _field(_SD, "The standard deviation of the total's noise."),
        "since": _field(_TIME, "The time at which the total was 0. It moves forward after a missing slot."),
        "d": _field(_ID, "The descriptor of the newest slot."),
    }
    return _document("total", "The sum of all records of a public id (sink.total).", _object(required))


def status() -> dict[str, Any]:
    """Return the schema of the agent's status."""
    schema = _object({"v": _VERSION, "status": {"enum": ["online", "offline"]}}, {"t": _TIME})
    online = {"if": {"properties": {"status": {"const": "online"}}}, "then": {"required": ["t"]}}
    return _document("status", "Whether the agent is running (sink.status).", {**schema, **online})


def prices() -> dict[str, Any]:
    """Return the schema of messages with public prices, which the agent reads (window.weights.topic)."""
    price_per_kwh = _field(_NUMBER, "The price per kWh, in window.weights.unit.")
    price = _object({"start": _TIME, "end": _TIME, "price": price_per_kwh})
    schema = {"anyOf": [{"$ref": "#/$defs/price"}, {"type": "array", "items": {"$ref": "#/$defs/price"}}]}
    return _document("prices", "One public price, or several.", {**schema, "$defs": {"price": price}})


def manifest() -> dict[str, Any]:
    """Return the schema of the facts of `_manifest.parquet` in the output of `meteragent sanitise`."""
    form = {key: value for key, value in descriptor().items() if key != "$schema"}
    count = {"type": "integer", "minimum": 0}
    required = {
        "v": _VERSION,
        "run": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "complete": {"type": "boolean", "description": "An output that is not complete is not read."},
        "cut": {"type": "array", "description": "Where the engine cuts its files; not for readers."},
        "form": {"enum": ["wide", "long"]},
        "policy": {"type": "object"},
        "descriptors": {"type": "array", "items": {"$ref": "#/$defs/descriptor"}},
        "keys": {"type": "array", "items": _TEXT},
        "windows": _object({"released": count, "refused": count}),
    }
    schema = {**_object(required), "$defs": {"descriptor": form}}
    return _document("manifest", "The content of an archive's output, and the terms of its values.", schema)


def schemas() -> dict[str, dict[str, Any]]:
    """Return all schemas by name."""
    makers = {
        "record": record,
        "record-senml": record_senml,
        "descriptor": descriptor,
        "total": total,
        "status": status,
        "prices": prices,
        "manifest": manifest,
    }
    return {name: make() for name, make in makers.items()}


_CHANNELS: dict[str, tuple[str, tuple[str, ...], str, bool]] = {
    "records": (
        "{sinkTopic}",
        ("record", "record-senml"),
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
"""The version of the contract. Its first number is the `v` of messages, and its second counts additions."""


def asyncapi() -> dict[str, Any]:
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
            "contentType": "application/senml+json" if name == "record-senml" else "application/json",
            "title": schema["title"],
            "summary": schema["description"],
            "payload": {
                "schemaFormat": "application/schema+json;version=draft-2020-12",
                "schema": {"$ref": f"./{name}.schema.json"},
            },
        }
        for name, schema in schemas().items()
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
