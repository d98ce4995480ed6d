//! Schemas of arguments as each provider takes them. Servers write draft-07 and 2020-12, with references, unions and
//! missing types; a schema that a provider refuses costs a role all of its tools, so whatever can't be kept is left
//! out with a note, and only the server checks the arguments in full.

pub(super) mod parse;
mod plain;
mod top;
mod unions;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use parse::{add_hint, decode_pointer, drop_twins, fits_type, guess_type, is_plain_property};
use plain::{CONDITIONS, name_types, plain_fields};
use top::flatten_top;

use crate::weight::weigh;

/// The dialect of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaDialect {
    /// JSON Schema 2020-12 with an object at the top.
    OpenAi,
    /// JSON Schema as for OpenAI, with names of properties of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`.
    Anthropic,
    /// JSON Schema as for Anthropic, with a type in each place, and unions as `anyOf` alone.
    Moonshot,
    /// The part of OpenAPI 3.0 that Gemini knows: one type each, words alone in `enum`, no additional properties.
    Gemini,
}

/// Limits of a schema after references are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaBounds {
    /// Schemas inside of schemas.
    pub depth: usize,
    /// Number of schemas altogether.
    pub nodes: usize,
    /// Most entries of one `enum`.
    pub choices: usize,
    /// Characters of one description.
    pub description_chars: usize,
    /// About so many bytes altogether.
    pub bytes: usize,
}

impl Default for SchemaBounds {
    fn default() -> Self {
        Self { depth: 12, nodes: 600, choices: 200, description_chars: 1000, bytes: 16 << 10 }
    }
}

/// A schema fit for a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct CleanSchema {
    /// The cleaned schema, which is one of an object.
    pub schema: Value,
    /// A sentence for each thing that is left out.
    pub notes: BTreeSet<String>,
    /// Parts are left out because there are too many.
    pub is_cut: bool,
}

/// Bytes of the least schema, in a full dialect and in those that have to say "any JSON" in words, or in types.
const SCHEMA: usize = 20;
const GEMINI_SCHEMA: usize = 60;
const MOONSHOT_SCHEMA: usize = 70;
/// Bytes more of an object, and around a property's name.
const OBJECT: usize = 20;
const PROPERTY: usize = 6;
const TOO_MANY: &str = "parts that are nested too deeply, or too many, are left open";
/// Descriptions that ask Gemini for JSON in a text, where it has no schema for the value: the gateway parses it.
const ANY_TEXT: &str = "any JSON, as text";
const OBJECT_TEXT: &str = "a JSON object, as text";
/// Characters of a regular expression that a description shows.
const PATTERN_CHARS: usize = 200;
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// Makes a tool's schema fit for a provider.
pub fn clean_schema(
    schema: &Map<String, Value>,
    dialect: SchemaDialect,
    bounds: SchemaBounds,
) -> CleanSchema {
    let root = Value::Object(schema.clone());
    let (mut merged, notes) = flatten_top(&root, schema);
    let mut cleaner = Cleaner {
        root: &root,
        dialect,
        bounds,
        nodes: 0,
        left: bounds.bytes,
        is_cut: false,
        notes,
        open: Vec::new(),
    };
    merged.insert("type".to_owned(), json!("object"));
    let mut clean = cleaner.clean(&Value::Object(merged), 0);
    if let Some(fields) = clean.as_object_mut() {
        fields.insert("type".to_owned(), json!("object"));
        fields.entry("properties").or_insert_with(|| json!({}));
        fields.remove("nullable");
    } else {
        clean = json!({"type": "object", "properties": {}});
    }
    if dialect == SchemaDialect::Moonshot {
        name_types(&mut clean);
    }
    CleanSchema { schema: clean, notes: cleaner.notes, is_cut: cleaner.is_cut }
}

struct Cleaner<'a> {
    root: &'a Value,
    dialect: SchemaDialect,
    bounds: SchemaBounds,
    nodes: usize,
    /// Bytes that it may still take.
    left: usize,
    is_cut: bool,
    notes: BTreeSet<String>,
    /// References that are being replaced.
    open: Vec<String>,
}

impl Cleaner<'_> {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.insert(text.into());
    }

    fn note_cut(&mut self) {
        self.is_cut = true;
        self.note(TOO_MANY);
    }

    /// False for what does not fit any more.
    fn spend(&mut self, bytes: usize) -> bool {
        let Some(left) = self.left.checked_sub(bytes) else {
            self.note_cut();
            return false;
        };
        self.left = left;
        true
    }

    /// True if no schema fits any more.
    fn is_full(&mut self) -> bool {
        let is_full = self.left < self.least() || self.nodes >= self.bounds.nodes;
        if is_full {
            self.note_cut();
        }
        is_full
    }

    fn least(&self) -> usize {
        match self.dialect {
            SchemaDialect::OpenAi | SchemaDialect::Anthropic => SCHEMA,
            SchemaDialect::Moonshot => MOONSHOT_SCHEMA,
            SchemaDialect::Gemini => GEMINI_SCHEMA,
        }
    }

    /// Several schemas, as many as fit.
    fn clean_all<'v>(
        &mut self,
        schemas: impl IntoIterator<Item = &'v Value>,
        depth: usize,
    ) -> Vec<Value> {
        let mut cleaned = Vec::new();
        for schema in schemas {
            if self.is_full() {
                break;
            }
            cleaned.push(self.clean(schema, depth));
        }
        cleaned
    }

    fn clean(&mut self, schema: &Value, depth: usize) -> Value {
        self.nodes += 1;
        let Value::Object(fields) = schema else {
            return self.anything();
        };
        if depth > self.bounds.depth {
            self.note(TOO_MANY);
            return self.anything();
        }
        if self.nodes > self.bounds.nodes {
            self.note_cut();
            return self.anything();
        }
        if let Some(Value::String(reference)) =
            fields.get("$ref").or_else(|| fields.get("$dynamicRef"))
        {
            return self.replace(reference, fields, depth);
        }
        if !self.spend(self.least()) {
            return self.anything();
        }
        let mut clean = Map::new();
        self.keep_plain(fields, &mut clean);
        self.clean_type(fields, &mut clean);
        self.clean_choices(fields, &mut clean);
        self.clean_unions(fields, &mut clean, depth);
        self.clean_object(fields, &mut clean, depth);
        self.clean_array(fields, &mut clean, depth);
        if CONDITIONS.iter().any(|keyword| fields.contains_key(*keyword)) {
            self.note("conditions between arguments are left to the server");
        }
        if self.dialect == SchemaDialect::Gemini
            && !clean.contains_key("type")
            && !clean.contains_key("anyOf")
        {
            clean.insert("type".to_owned(), json!("string"));
            if !fields.contains_key("enum") && !fields.contains_key("const") {
                add_hint(&mut clean, ANY_TEXT);
            }
        }
        Value::Object(clean)
    }

    fn anything(&self) -> Value {
        match self.dialect {
            // Gemini has no schema for any value.
            SchemaDialect::Gemini => json!({"type": "string", "description": ANY_TEXT}),
            _ => json!({}),
        }
    }

    fn replace(&mut self, reference: &str, fields: &Map<String, Value>, depth: usize) -> Value {
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| self.root.pointer(&decode_pointer(pointer)));
        let is_circle = self.open.iter().any(|open| open == reference);
        let Some(target) = target.filter(|_| !is_circle) else {
            let reason = if is_circle {
                "types that hold themselves"
            } else {
                "references to somewhere else"
            };
            let _ = self.spend(self.least());
            self.note(format!("{reason} are left open"));
            return self.anything();
        };
        let mut target = target.clone();
        // Words beside a reference say what it is for.
        if let Value::Object(target) = &mut target {
            for (key, value) in
                fields.iter().filter(|(key, _)| *key != "$ref" && *key != "$dynamicRef")
            {
                target.insert(key.clone(), value.clone());
            }
        }
        self.open.push(reference.to_owned());
        let clean = self.clean(&target, depth + 1);
        self.open.pop();
        clean
    }

    fn keep_plain(&mut self, fields: &Map<String, Value>, clean: &mut Map<String, Value>) {
        let is_gemini = self.dialect == SchemaDialect::Gemini;
        let (plain, unfit) = plain_fields(fields, is_gemini, self.bounds.description_chars);
        for keyword in unfit {
            self.note(format!("`{keyword}` with a value that it can't have is left out"));
        }
        for (keyword, value) in plain {
            if self.spend(keyword.len() + 4 + weigh(&value)) {
                clean.insert(keyword.to_owned(), value);
            }
        }
        match fields.get("pattern") {
            Some(Value::String(pattern)) => self.hint_pattern(pattern, clean),
            Some(_) => self.note("`pattern` with a value that it can't have is left out"),
            None => {}
        }
    }

    /// Says a regular expression in words. Providers that read it refuse a whole request for what their engine lacks
    /// (OpenAI and DeepSeek for lookarounds, llama.cpp for a missing anchor or `\d`), and the server checks it anyway.
    fn hint_pattern(&mut self, pattern: &str, clean: &mut Map<String, Value>) {
        let pattern = codebutler_mcp_file::clean_text(pattern);
        let hint = format!("matches the pattern {pattern}");
        if pattern.chars().count() > PATTERN_CHARS {
            self.note("a `pattern` that is too long is left out");
        } else if self.spend(hint.len() + "description".len() + 6) {
            add_hint(clean, &hint);
        }
    }

    fn clean_type(&mut self, fields: &Map<String, Value>, clean: &mut Map<String, Value>) {
        let named: Vec<&str> = match fields.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => guess_type(fields).into_iter().collect(),
        };
        let mut types: Vec<&str> =
            TYPES.into_iter().filter(|known| named.contains(known)).collect();
        let mut is_nullable = fields.get("nullable") == Some(&json!(true));
        if self.dialect != SchemaDialect::Gemini {
            if is_nullable && !types.is_empty() && !types.contains(&"null") {
                types.push("null");
            }
            match &*types {
                [] => {}
                [one] => drop(clean.insert("type".to_owned(), json!(one))),
                several => drop(clean.insert("type".to_owned(), json!(several))),
            }
            return;
        }
        is_nullable |= types.contains(&"null");
        types.retain(|one| *one != "null");
        if types.len() > 1 && types.contains(&"object") {
            // Gemini refuses an object without properties.
            types.retain(|one| !["object", "string"].contains(one));
            types.push("string");
            add_hint(clean, OBJECT_TEXT);
        }
        match &*types {
            [] => {}
            [one] => drop(clean.insert("type".to_owned(), json!(one))),
            several => {
                let items = json!({"type": "string"});
                let branch = |one: &&str| {
                    if *one == "array" {
                        json!({"type": one, "items": items})
                    } else {
                        json!({"type": one})
                    }
                };
                clean.insert("anyOf".to_owned(), several.iter().map(branch).collect());
            }
        }
        if is_nullable {
            clean.insert("nullable".to_owned(), json!(true));
        }
    }

    fn clean_choices(&mut self, fields: &Map<String, Value>, clean: &mut Map<String, Value>) {
        let constant = fields.get("const").map(|value| vec![value.clone()]);
        let listed = fields.get("enum").and_then(Value::as_array).cloned();
        let Some(choices) = constant.or(listed).filter(|choices| !choices.is_empty()) else {
            return;
        };
        if choices.len() > self.bounds.choices {
            self.note(format!("a list of {} choices is left out", choices.len()));
            return;
        }
        if !self.spend(choices.iter().map(|choice| weigh(choice) + 2).sum::<usize>() + 8) {
            return;
        }
        let choices = drop_twins(choices);
        let is_gemini = self.dialect == SchemaDialect::Gemini;
        if !is_gemini {
            // Some providers refuse a request for a choice that the type beside it rules out.
            let kind = clean.get("type").cloned();
            let fits = |choice: &&Value| fits_type(choice, kind.as_ref());
            let fitting: Vec<Value> = choices.iter().filter(fits).cloned().collect();
            if fitting.len() < choices.len() {
                self.note("choices of another type than the one beside them are left out");
            }
            let has_type = kind.is_some() || self.dialect != SchemaDialect::Moonshot;
            if has_type && !fitting.is_empty() {
                clean.insert("enum".to_owned(), Value::Array(fitting));
                return;
            }
        }
        let words: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        if is_gemini && words.len() == choices.len() {
            clean.insert("type".to_owned(), json!("string"));
            clean.insert("enum".to_owned(), json!(words));
            return;
        }
        let listed = choices.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        let about = clean.get("description").and_then(Value::as_str).unwrap_or_default();
        let about = format!("{about} One of: {listed}.").trim().to_owned();
        clean.insert("description".to_owned(), json!(about));
    }

    fn clean_object(
        &mut self,
        fields: &Map<String, Value>,
        clean: &mut Map<String, Value>,
        depth: usize,
    ) {
        let is_object = match clean.get("type") {
            Some(Value::String(one)) => one == "object",
            Some(Value::Array(several)) => several.contains(&json!("object")),
            _ => false,
        };
        if !is_object || !self.spend(OBJECT) {
            return;
        }
        let mut properties =
            clean.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, schema) in
            fields.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if *schema == Value::Bool(false) {
                continue;
            }
            let is_strict =
                matches!(self.dialect, SchemaDialect::Anthropic | SchemaDialect::Moonshot);
            if is_strict && !is_plain_property(name) {
                let shown: String = name.chars().take(60).collect();
                self.note(format!("the argument `{shown}` can't be named to this provider"));
                continue;
            }
            if self.is_full() || !self.spend(name.len() + PROPERTY) {
                break;
            }
            let schema = self.clean(schema, depth + 1);
            properties.insert(name.clone(), schema);
        }
        let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
        let before = clean.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let required: BTreeSet<String> = required
            .chain(&before)
            .filter_map(Value::as_str)
            .filter(|name| properties.contains_key(*name))
            .map(str::to_owned)
            .collect();
        if self.dialect == SchemaDialect::Gemini && properties.is_empty() && depth > 0 {
            // Gemini refuses an object without properties, except at the top.
            clean.insert("type".to_owned(), json!("string"));
            add_hint(clean, OBJECT_TEXT);
            return;
        }
        clean.insert("properties".to_owned(), Value::Object(properties));
        clean.remove("required");
        if !required.is_empty() {
            clean.insert("required".to_owned(), json!(required));
        }
        if self.dialect != SchemaDialect::Gemini {
            match fields.get("additionalProperties") {
                Some(flag @ Value::Bool(_)) => {
                    drop(clean.insert("additionalProperties".to_owned(), flag.clone()));
                }
                Some(schema @ Value::Object(_)) => {
                    let schema = self.clean(schema, depth + 1);
                    // One that takes anything says nothing, and some providers refuse it.
                    if schema.as_object().is_some_and(|fields| !fields.is_empty()) {
                        clean.insert("additionalProperties".to_owned(), schema);
                    }
                }
                _ => {}
            }
        }
    }

    fn clean_array(
        &mut self,
        fields: &Map<String, Value>,
        clean: &mut Map<String, Value>,
        depth: usize,
    ) {
        let is_array = match clean.get("type") {
            Some(Value::String(one)) => one == "array",
            Some(Value::Array(several)) => several.contains(&json!("array")),
            _ => false,
        };
        if !is_array {
            return;
        }
        let tuple = fields
            .get("prefixItems")
            .or_else(|| fields.get("items").filter(|items| items.is_array()));
        let items = match (tuple.and_then(Value::as_array).map(Vec::as_slice), fields.get("items"))
        {
            (Some([one]), _) => self.clean(one, depth + 1),
            (Some(several @ [_, ..]), _) => {
                self.note("the places of a list's entries are left to the server");
                let union = self.clean_all(several, depth + 1);
                if union.len() < several.len() { self.anything() } else { json!({"anyOf": union}) }
            }
            (_, Some(items @ Value::Object(_))) => self.clean(items, depth + 1),
            _ => self.anything(),
        };
        clean.insert("items".to_owned(), items);
    }
}

#[cfg(test)]
mod tests;
