//! Unions inside of a schema. Some providers (Gemini, Moonshot) refuse a type beside one, so that it stands alone: its
//! branches have their types.

use serde_json::{Map, Value, json};

use super::parse::merge_branches;
use super::{Cleaner, SchemaDialect};

/// Said where a union is left out.
const LEFT: &str = "conditions between arguments are left to the server";
/// Keywords of unions of which one branch holds.
const UNIONS: [&str; 2] = ["anyOf", "oneOf"];

impl Cleaner<'_> {
    pub(super) fn clean_unions(
        &mut self,
        fields: &Map<String, Value>,
        clean: &mut Map<String, Value>,
        depth: usize,
    ) {
        if let Some(Value::Array(branches)) = fields.get("allOf") {
            let branches = self.clean_all(branches, depth + 1);
            let branches: Vec<&Map<String, Value>> =
                branches.iter().filter_map(Value::as_object).collect();
            merge_branches(clean, &branches, true);
        }
        let is_gemini = self.dialect == SchemaDialect::Gemini;
        for union in UNIONS {
            let Some(Value::Array(branches)) = fields.get(union) else { continue };
            if is_gemini && branches.iter().any(is_null) {
                clean.insert("nullable".to_owned(), json!(true));
            }
            let is_kept = |branch: &&Value| !(is_never(branch) || (is_gemini && is_null(branch)));
            let kept: Vec<&Value> = branches.iter().filter(is_kept).collect();
            let count = kept.len();
            let mut cleaned = self.clean_all(kept, depth + 1);
            if cleaned.is_empty() || cleaned.len() < count {
                // A part of the alternatives would forbid the others.
                continue;
            }
            if cleaned.len() == 1 {
                if let Some(Value::Object(only)) = cleaned.pop() {
                    for (key, value) in only {
                        clean.entry(key).or_insert(value);
                    }
                }
                continue;
            }
            if is_structured(fields) || clean.contains_key("properties") {
                self.join_union(&cleaned, clean);
                continue;
            }
            let is_plain = is_gemini || self.dialect == SchemaDialect::Moonshot;
            let keyword = if is_plain { "anyOf" } else { union };
            clean.insert(keyword.to_owned(), Value::Array(cleaned));
        }
        self.part_unions(fields, clean);
    }

    /// Parts unions, those of branches of other ones among them, from the type beside them.
    fn part_unions(&mut self, fields: &Map<String, Value>, clean: &mut Map<String, Value>) {
        let has_union = UNIONS.iter().any(|union| clean.contains_key(*union));
        if !has_union || !clean.contains_key("type") {
            return;
        }
        if is_structured(fields) || clean.contains_key("properties") {
            clean.retain(|keyword, _| !UNIONS.contains(&keyword.as_str()));
            self.note(LEFT);
            return;
        }
        let kind = clean.remove("type").filter(|_| self.dialect != SchemaDialect::Gemini);
        let Some(kind) = kind else { return };
        for union in UNIONS {
            let branches = clean.get_mut(union).and_then(Value::as_array_mut);
            for branch in branches.into_iter().flatten().filter_map(Value::as_object_mut) {
                if !is_typed(branch) {
                    branch.insert("type".to_owned(), kind.clone());
                }
            }
        }
    }

    /// Takes a union beside properties together with them, where it is one of objects.
    fn join_union(&mut self, cleaned: &[Value], clean: &mut Map<String, Value>) {
        let kind = |branch: &Value| branch.get("type").is_none_or(|kind| *kind == "object");
        let is_object = clean.get("type").is_some_and(|kind| *kind == "object");
        if is_object && cleaned.iter().all(kind) {
            let branches: Vec<&Map<String, Value>> =
                cleaned.iter().filter_map(Value::as_object).collect();
            merge_branches(clean, &branches, false);
        }
        self.note(LEFT);
    }
}

fn is_null(branch: &Value) -> bool {
    branch.get("type").is_some_and(|kind| *kind == "null")
}

/// True for a branch that no value fits, as Zod writes it for what may be left out.
fn is_never(branch: &Value) -> bool {
    *branch == Value::Bool(false)
        || branch.get("not").is_some_and(|not| *not == json!({}) || *not == Value::Bool(true))
}

/// True for a schema that says itself what is in its objects or lists.
fn is_structured(fields: &Map<String, Value>) -> bool {
    let has_properties = fields.get("properties").and_then(Value::as_object);
    has_properties.is_some_and(|all| !all.is_empty())
        || fields.contains_key("items")
        || fields.contains_key("prefixItems")
}

fn is_typed(branch: &Map<String, Value>) -> bool {
    ["type", "anyOf", "oneOf"].iter().any(|keyword| branch.contains_key(*keyword))
}
