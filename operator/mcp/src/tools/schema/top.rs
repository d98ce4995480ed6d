//! The top of a schema. Providers want an object there, and refuse a request whose tools have unions, references or
//! choices in that place.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::parse::{decode_pointer, merge_branches};

/// Unions inside of unions, and references that lead to references.
const LAYERS: usize = 8;
/// Branches with unions of their own that are looked into: each can name all the others.
const BRANCHES: usize = 256;
/// Keywords that no provider takes at the top.
const REFUSED: [&str; 7] = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "enum", "const"];

/// Replaces references and takes the properties of unions together; with a sentence for each of these changes.
pub(super) fn flatten_top(
    root: &Value,
    schema: &Map<String, Value>,
) -> (Map<String, Value>, BTreeSet<String>) {
    let mut flattener = Flattener { root, left: BRANCHES, notes: BTreeSet::new() };
    let flat = flattener.flatten(schema, 0);
    (flat, flattener.notes)
}

struct Flattener<'a> {
    root: &'a Value,
    /// Branches that it may still look into.
    left: usize,
    notes: BTreeSet<String>,
}

impl<'a> Flattener<'a> {
    fn flatten(&mut self, schema: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut merged = self.follow(schema.clone());
        for (union, takes_all) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
            let Some(Value::Array(branches)) = merged.remove(union) else { continue };
            self.notes.insert(format!("a union (`{union}`) at the top is shown as one object"));
            let flat: Vec<Cow<'_, Map<String, Value>>> =
                branches.iter().filter_map(|branch| self.read_branch(branch, depth)).collect();
            let fields: Vec<&Map<String, Value>> = flat.iter().map(|branch| &**branch).collect();
            merge_branches(&mut merged, &fields, takes_all);
        }
        merged.retain(|keyword, _| !REFUSED.contains(&keyword.as_str()));
        merged
    }

    /// Replaces a reference by what it leads to.
    fn follow(&mut self, mut schema: Map<String, Value>) -> Map<String, Value> {
        for hop in 0..=LAYERS {
            let Some(reference) = schema.remove("$ref") else { break };
            match self.find_target(&reference) {
                Some(target) if hop < LAYERS => schema.extend(target.clone()),
                _ => {
                    self.notes.insert("a reference at the top leads nowhere".to_owned());
                }
            }
        }
        schema
    }

    /// The fields of a branch; those of a plain one are not copied.
    fn read_branch<'b>(
        &mut self,
        branch: &'b Value,
        depth: usize,
    ) -> Option<Cow<'b, Map<String, Value>>>
    where
        'a: 'b,
    {
        let mut fields = branch.as_object()?;
        for _ in 0..LAYERS {
            let Some(reference) = fields.get("$ref") else { break };
            fields = self.find_target(reference)?;
        }
        let is_plain = !REFUSED.iter().any(|keyword| fields.contains_key(*keyword));
        if is_plain || depth >= LAYERS || self.left == 0 {
            return Some(Cow::Borrowed(fields));
        }
        self.left -= 1;
        Some(Cow::Owned(self.flatten(fields, depth + 1)))
    }

    fn find_target(&self, reference: &Value) -> Option<&'a Map<String, Value>> {
        let pointer = reference.as_str()?.trim_start_matches('#');
        self.root.pointer(&decode_pointer(pointer))?.as_object()
    }
}
