//! Arguments of a call as its server wants them. Gemini can't be told of an object whose fields are not known, so it
//! is asked for JSON as a text; other models write such a text by themselves at times. What holds JSON where the
//! schema has no room for a text is parsed, once. Models also write null for what they leave out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schema::SchemaDialect;
use super::schema::parse::{decode_pointer, guess_type};

/// Schemas that are looked at for one value, and references that are followed to each.
const MOST: usize = 64;
const HOPS: usize = 16;
const UNIONS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// The arguments that a model of this dialect means, for a tool with this schema.
pub fn restore_arguments(
    schema: &Map<String, Value>,
    arguments: Map<String, Value>,
    dialect: SchemaDialect,
) -> Map<String, Value> {
    let root = Value::Object(schema.clone());
    let restorer = Restorer { root: &root, reads_text: dialect == SchemaDialect::Gemini };
    let whole = restorer.expand([&root]);
    restorer.restore_fields(arguments, &whole)
}

struct Restorer<'a> {
    root: &'a Value,
    /// The model was asked for JSON as a text where its provider knows nothing else.
    reads_text: bool,
}

/// Schemas that a value has to fit.
struct Fitting<'a> {
    schemas: Vec<&'a Map<String, Value>>,
    /// True if one of them accepts any value.
    takes_all: bool,
}

impl Fitting<'_> {
    fn requires(&self, name: &str) -> bool {
        let lists = |fields: &Map<String, Value>| {
            let names = fields.get("required").and_then(Value::as_array);
            names.is_some_and(|names| names.iter().any(|one| one == name))
        };
        self.schemas.iter().any(|fields| lists(fields))
    }
}

impl<'a> Restorer<'a> {
    /// Schemas with the branches of their unions, and what references lead to.
    fn expand(&self, schemas: impl IntoIterator<Item = &'a Value>) -> Fitting<'a> {
        let mut found = Fitting { schemas: Vec::new(), takes_all: false };
        let mut open: Vec<(&Value, usize)> = schemas.into_iter().map(|one| (one, 0)).collect();
        while let Some((schema, hops)) = open.pop() {
            let Value::Object(fields) = schema else {
                found.takes_all |= *schema == Value::Bool(true);
                continue;
            };
            if found.schemas.len() >= MOST || hops > HOPS {
                continue;
            }
            let reference = fields.get("$ref").or_else(|| fields.get("$dynamicRef"));
            let pointer = reference.and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
            let target = pointer.and_then(|pointer| self.root.pointer(&decode_pointer(pointer)));
            open.extend(target.map(|target| (target, hops + 1)));
            let branches = UNIONS.iter().filter_map(|union| fields.get(*union)?.as_array());
            open.extend(branches.flatten().map(|branch| (branch, hops + 1)));
            found.schemas.push(fields);
        }
        found
    }

    /// Collects the schemas that apply to a field.
    fn property(&self, whole: &Fitting<'a>, name: &str) -> Fitting<'a> {
        let of = |fields: &'a Map<String, Value>| {
            let named = fields.get("properties").and_then(|all| all.get(name));
            named.or_else(|| fields.get("additionalProperties").filter(|rest| rest.is_object()))
        };
        self.expand(whole.schemas.iter().filter_map(|fields| of(fields)))
    }

    /// The fields of an object. A null that a field can't have stands for one that is left out: servers refuse it.
    fn restore_fields(
        &self,
        fields: Map<String, Value>,
        whole: &Fitting<'a>,
    ) -> Map<String, Value> {
        let restore = |(name, value): (String, Value)| {
            let schemas = self.property(whole, &name);
            let is_left_out = value.is_null()
                && !whole.requires(&name)
                && list_types(&schemas).is_some_and(|types| !types.contains("null"));
            (!is_left_out).then(|| (name, self.restore(value, &schemas)))
        };
        fields.into_iter().filter_map(restore).collect()
    }

    fn restore(&self, value: Value, fitting: &Fitting<'a>) -> Value {
        match value {
            Value::String(text) => self.read(&text, fitting).unwrap_or(Value::String(text)),
            Value::Object(fields) => Value::Object(self.restore_fields(fields, fitting)),
            Value::Array(items) => {
                let of = |fields: &&'a Map<String, Value>| fields.get("items");
                let schemas = self.expand(fitting.schemas.iter().filter_map(of));
                items.into_iter().map(|item| self.restore(item, &schemas)).collect()
            }
            other => other,
        }
    }

    /// The value that a text holds, where that is what is wanted. It is not looked into: it is parsed once.
    fn read(&self, text: &str, fitting: &Fitting<'a>) -> Option<Value> {
        let types = list_types(fitting)?;
        if types.contains("string") && !self.reads_text {
            return None;
        }
        let parsed: Value = serde_json::from_str(text.trim()).ok()?;
        let fits = match &parsed {
            Value::Object(_) => types.contains("object"),
            Value::Array(_) => types.contains("array"),
            // A text that may be one stays one, unless it could be nothing else.
            _ if types.contains("string") && !types.contains(ANY) => false,
            Value::String(_) => types.contains(ANY),
            Value::Bool(_) => types.contains("boolean"),
            Value::Null => types.contains("null"),
            Value::Number(number) => {
                let is_whole = number.is_i64() || number.is_u64();
                let fits = types.contains("number") || (is_whole && types.contains("integer"));
                // `1.10` is a version.
                fits && (!types.contains("string") || number.to_string() == text.trim())
            }
        };
        fits.then_some(parsed)
    }
}

/// Among types, where nothing is said of them.
const ANY: &str = "any";

/// Types that schemas take; none where nothing is known of the value.
fn list_types(fitting: &Fitting<'_>) -> Option<BTreeSet<&'static str>> {
    let every = ["object", "array", "string", "number", "integer", "boolean", "null", ANY];
    let mut types = BTreeSet::new();
    if fitting.takes_all {
        types.extend(every);
    }
    for fields in &fitting.schemas {
        let named: Vec<&str> = match fields.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => guess_type(fields).into_iter().collect(),
        };
        types.extend(every[..7].iter().filter(|known| named.contains(known)));
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            types.insert("null");
        }
        let leads_on = UNIONS.iter().chain(&["$ref", "$dynamicRef"]);
        if named.iter().any(|one| every[..7].contains(one))
            || leads_on.into_iter().any(|keyword| fields.contains_key(*keyword))
        {
            continue;
        }
        match fields.get("enum").and_then(Value::as_array) {
            Some(choices) => types.extend(choices.iter().map(type_of)),
            None => match fields.get("const") {
                Some(value) => drop(types.insert(type_of(value))),
                None => types.extend(every),
            },
        }
    }
    (!types.is_empty()).then_some(types)
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn restore(schema: &Value, value: &Value, dialect: SchemaDialect) -> Value {
        let whole = json!({
            "type": "object", "properties": {"a": schema},
            "$defs": {"Free": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}},
        });
        let arguments = json!({"a": value}).as_object().cloned().unwrap();
        restore_arguments(whole.as_object().unwrap(), arguments, dialect)["a"].take()
    }

    #[test]
    fn json_in_a_text_is_what_it_says_where_no_text_is_wanted() {
        let object = json!({"type": "object"});
        for (schema, text, expected) in [
            (object.clone(), r#"{"a": {"b": "{}"}}"#, json!({"a": {"b": "{}"}})),
            (json!({"$ref": "#/$defs/Free"}), " {} ", json!({})),
            (json!({"$ref": "#/$defs/Loop"}), "{}", json!("{}")),
            (json!({"type": ["object", "null"]}), "null", Value::Null),
            (json!({"anyOf": [object, {"type": "null"}]}), r#"{"b":1}"#, json!({"b": 1})),
            (json!({"type": "array", "items": {}}), "[1]", json!([1])),
            (
                json!({"additionalProperties": {"type": "string"}}),
                r#"{"x":"1"}"#,
                json!({"x": "1"}),
            ),
            (json!({"type": "integer"}), "5", json!(5)),
            (json!({"type": "integer"}), "5.5", json!("5.5")),
            (json!({"enum": [1, 2]}), "2", json!(2)),
            (json!({"type": "object"}), "[1]", json!("[1]")),
            (json!({"type": "object"}), "no JSON", json!("no JSON")),
        ] {
            for dialect in [SchemaDialect::Gemini, SchemaDialect::Anthropic, SchemaDialect::OpenAi]
            {
                let restored = restore(&schema, &json!(text), dialect);
                assert_eq!(restored, expected, "{text} for {schema} from {dialect:?}");
            }
        }
    }

    #[test]
    fn a_text_that_is_wanted_stays_one() {
        for (schema, text) in [
            (json!({"type": "string"}), "{}"),
            (json!({"type": "string", "enum": ["5", "[]"]}), "5"),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), "5"),
            (json!({"format": "json"}), r#"{"b":1}"#),
        ] {
            for dialect in [SchemaDialect::Gemini, SchemaDialect::Anthropic] {
                assert_eq!(restore(&schema, &json!(text), dialect), json!(text), "{schema}");
            }
        }
        // Where the schema allows a text too, a text was meant; except from Gemini, which has no other way to give an
        // object.
        for schema in [json!({}), json!(true), json!({"type": ["object", "string"]})] {
            let text = json!(r#"{"b":1}"#);
            assert_eq!(restore(&schema, &text, SchemaDialect::Anthropic), text, "{schema}");
            assert_eq!(restore(&schema, &text, SchemaDialect::Gemini), json!({"b": 1}), "{schema}");
        }
        for (text, expected) in [
            ("5", json!(5)),
            ("1.10", json!("1.10")),
            ("true", json!(true)),
            ("\"5\"", json!("5")),
            ("words", json!("words")),
        ] {
            assert_eq!(restore(&json!({}), &json!(text), SchemaDialect::Gemini), expected);
        }
    }

    #[test]
    fn values_inside_of_others_are_restored_and_unknown_ones_are_left() {
        let schema = json!({"type": "object", "properties": {
            "filters": {"type": "array", "items": {"type": "object"}},
            "rows": {"type": "object", "additionalProperties": {"type": "object"}},
        }});
        let value =
            json!({"filters": ["{\"x\":1}", {"y": "{}"}], "rows": {"r": "{}"}, "other": "{}"});
        let expected =
            json!({"filters": [{"x": 1}, {"y": "{}"}], "rows": {"r": {}}, "other": "{}"});
        for dialect in [SchemaDialect::Gemini, SchemaDialect::OpenAi] {
            assert_eq!(restore(&schema, &value, dialect), expected);
        }
    }

    #[test]
    fn a_null_for_what_can_not_be_null_is_left_out() {
        let schema = json!({"type": "object", "required": ["must"], "properties": {
            "plain": {"type": "string"},
            "listed": {"type": ["string", "null"]},
            "nullable": {"type": "integer", "nullable": true},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "any": {},
            "must": {"type": "string"},
            "inner": {"type": "object", "properties": {"plain": {"enum": ["a"]}}},
        }});
        let given = json!({"plain": null, "listed": null, "nullable": null, "either": null, "any": null,
            "must": null, "inner": {"plain": null, "unknown": null}, "unknown": null});
        let mut expected = given.clone();
        expected.as_object_mut().unwrap().remove("plain");
        expected["inner"].as_object_mut().unwrap().remove("plain");
        for dialect in [SchemaDialect::Gemini, SchemaDialect::Anthropic] {
            let arguments = given.as_object().cloned().unwrap();
            let restored = restore_arguments(schema.as_object().unwrap(), arguments, dialect);
            assert_eq!(Value::Object(restored), expected);
        }
    }

    #[test]
    fn hostile_schemas_and_values_take_no_time() {
        let mut deep = json!({"type": "object"});
        for _ in 0..60 {
            deep = json!({"anyOf": [deep, {"$ref": "#/$defs/Loop"}]});
        }
        assert_eq!(restore(&deep, &json!("x"), SchemaDialect::Gemini), json!("x"));
        let wide = json!({"anyOf": vec![json!({"$ref": "#/properties/a"}); 50]});
        restore(&wide, &json!({"b": {"c": ["{}", "{}"]}}), SchemaDialect::Gemini);
        let nested = json!("[".repeat(10_000));
        assert_eq!(restore(&json!({"type": "array"}), &nested, SchemaDialect::Gemini), nested);
    }
}
