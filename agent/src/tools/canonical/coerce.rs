//! Fits arguments to a schema: names that others use, values in another form, extras left out.

use serde_json::{Map, Number, Value};

use super::json::{self, kind_name};
use super::{bare_name, keys};
use codebutler_guides::text::clip_text;

/// Least Jaro-Winkler similarity at which one name may mean the other.
const ALIKE: f64 = 0.8;

/// Builds the object that a schema asks for. What it does not name is left out.
pub(super) fn coerce_object(
    place: &str,
    schema: &Value,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let nothing = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&nothing);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fitting = Map::new();
    let mut extras = Vec::new();
    for (key, value) in given {
        let Some(name) = meant_key(place, properties, &key) else {
            extras.push(key);
            continue;
        };
        let needed = required.contains(&name.as_str());
        if value.is_null() || (!needed && value.as_str().is_some_and(str::is_empty)) {
            continue;
        }
        let value = fit_value(&format!("{place}.{name}"), &properties[&name], value)
            .map_err(|why| format!("`{name}` {why}"))?;
        match fitting.get(&name) {
            Some(known) if *known != value => {
                return Err(format!("`{name}` is there twice, as `{}` too", clip_text(&key, 40)));
            }
            _ => fitting.insert(name, value),
        };
    }
    // A stand-in for another argument also stands in for those that it makes needless.
    if !fitting.contains_key("patch")
        && let Some(missing) = required.iter().find(|name| !fitting.contains_key(**name))
    {
        return Err(describe_lacking(missing, &extras));
    }
    // In the order of the schema, in whatever order they came.
    let named = properties.keys().filter_map(|name| fitting.remove_entry(name)).collect();
    Ok(named)
}

fn describe_lacking(missing: &str, extras: &[String]) -> String {
    let like = |key: &&String| strsim::jaro_winkler(&bare_name(key), &bare_name(missing)) >= ALIKE;
    let hint = match extras.iter().find(like) {
        Some(key) => format!(" (it has `{}`: do you mean that?)", clip_text(key, 40)),
        None if extras.is_empty() => String::new(),
        None => {
            let known: Vec<_> = extras.iter().take(5).map(|key| clip_text(key, 40)).collect();
            format!(" (of what they have, it knows no `{}`)", known.join("`, `"))
        }
    };
    format!("`{missing}` is missing{hint}")
}

/// Finds the parameter that a key means.
fn meant_key(place: &str, properties: &Map<String, Value>, key: &str) -> Option<String> {
    if properties.contains_key(key) {
        return Some(key.to_owned());
    }
    let by = bare_name(key);
    let own = properties.keys().find(|name| bare_name(name) == by);
    own.cloned().or_else(|| {
        let others = keys::other_keys(place).iter();
        let found = others.filter(|(_, others)| others.contains(&by.as_str()));
        found.map(|(name, _)| (*name).to_owned()).find(|name| properties.contains_key(name))
    })
}

fn fit_value(place: &str, schema: &Value, value: Value) -> Result<Value, String> {
    if let Some(choices) = schema["enum"].as_array() {
        return coerce_choice(place, choices, &value);
    }
    let wrong = |value: &Value, wanted: &str| Err(format!("is {}, not {wanted}", kind_name(value)));
    match schema["type"].as_str() {
        Some("string") => match value {
            Value::Number(number) => Ok(Value::String(number.to_string())),
            Value::Bool(yes) => Ok(Value::String(yes.to_string())),
            Value::Array(mut list) if list.len() == 1 && list[0].is_string() => Ok(list.remove(0)),
            Value::String(_) => Ok(value),
            other => wrong(&other, "a text"),
        },
        Some("integer") => match coerce_integer(&value) {
            Some(number) => Ok(Value::Number(number)),
            None => wrong(&value, "a whole number"),
        },
        Some("boolean") => match coerce_boolean(&value) {
            Some(yes) => Ok(Value::Bool(yes)),
            None => wrong(&value, "true or false"),
        },
        Some("array") => coerce_list(place, &schema["items"], value),
        Some("object") => match value {
            Value::Object(map) => coerce_object(place, schema, map).map(Value::Object),
            Value::String(text) => match json::read_object(&text) {
                Ok(map) => coerce_object(place, schema, map).map(Value::Object),
                Err(_) => Err("is a text, not an object".to_owned()),
            },
            other => wrong(&other, "an object"),
        },
        _ => Ok(value),
    }
}

fn coerce_list(place: &str, items: &Value, value: Value) -> Result<Value, String> {
    let values = match value {
        Value::Array(values) => values,
        Value::String(text) => match serde_json::from_str(text.trim()) {
            Ok(Value::Array(values)) => values,
            Ok(object @ Value::Object(_)) => vec![object],
            _ => vec![Value::String(text)],
        },
        other => vec![other],
    };
    let values = values.into_iter().filter(|value| !value.is_null()).enumerate();
    let fitting = values.map(|(index, value)| {
        fit_value(place, items, value).map_err(|why| format!("(item {}) {why}", index + 1))
    });
    fitting.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn coerce_choice(place: &str, choices: &[Value], value: &Value) -> Result<Value, String> {
    let given = value.as_str().map(bare_name).unwrap_or_default();
    let meant = keys::value_synonym(place, &given).unwrap_or(&given);
    let found =
        choices.iter().find(|choice| choice.as_str().is_some_and(|c| bare_name(c) == meant));
    found.cloned().ok_or_else(|| {
        let known: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
        format!("is none of {}", known.join(", "))
    })
}

fn coerce_integer(value: &Value) -> Option<Number> {
    // Limit beyond which a float can't hold every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if !number.is_f64() => Some(number.clone()),
        Value::Number(number) => {
            let float = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < EXACT)?;
            format!("{float:.0}").parse::<i64>().ok().map(Number::from)
        }
        Value::String(text) => {
            let read: Value = serde_json::from_str(text.trim()).ok()?;
            if read.is_number() { coerce_integer(&read) } else { None }
        }
        _ => None,
    }
}

fn coerce_boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(yes) => Some(*yes),
        Value::Number(number) => match number.as_u64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(true),
            "false" | "no" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
