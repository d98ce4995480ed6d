//! Sets of field paths, and their form in `fieldsV1`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// One step of a field's path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathElement {
    /// A field of a structure or a key of a map.
    Field(String),
    /// An item of a keyed list, by its keys in sorted order, as JSON.
    Key(String),
    /// An item of a set, as JSON.
    Value(String),
    /// An item of a list by its index.
    Index(usize),
}

impl PathElement {
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            // Through a value, so that spacing and order of a client's text don't matter.
            "k" => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::Key(serde_json::to_string(&keys).ok()?))
            }
            "v" => {
                let value: Value = serde_json::from_str(rest).ok()?;
                Some(Self::Value(value.to_string()))
            }
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn show(&self, out: &mut String) {
        let _ = match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(out, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        };
    }
}

/// A path as conflicts show it, such as `.spec.containers[name="a"].image`.
pub(super) fn show_path(path: &[PathElement]) -> String {
    let mut out = String::new();
    for element in path {
        element.show(&mut out);
    }
    out
}

/// A set of field paths, as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    members: BTreeSet<PathElement>,
    children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// True if the set has no paths.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Adds a path. The empty path can't be a member.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Adds all paths of another set.
    pub(super) fn extend(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            self.children.entry(element.clone()).or_default().extend(child);
        }
    }

    /// Removes exactly the paths of another set.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.members.retain(|m| !other.members.contains(m));
        self.children.retain(|element, child| {
            if let Some(theirs) = other.children.get(element) {
                child.subtract(theirs);
            }
            !child.is_empty()
        });
    }

    /// Removes the paths of another set and everything below them.
    pub(super) fn subtract_below(&mut self, other: &Self) {
        self.members.retain(|m| !other.members.contains(m));
        self.children.retain(|element, child| {
            if other.members.contains(element) {
                return false;
            }
            if let Some(theirs) = other.children.get(element) {
                child.subtract_below(theirs);
            }
            !child.is_empty()
        });
    }

    /// Returns the paths that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self
            .children
            .iter()
            .filter_map(|(element, child)| {
                let both = child.intersection(other.children.get(element)?);
                (!both.is_empty()).then(|| (element.clone(), both))
            })
            .collect();
        Self { members, children }
    }

    /// True if a path of this one step is a member.
    pub(super) fn has(&self, element: &PathElement) -> bool {
        self.members.contains(element)
    }

    /// The paths below an element, if there are any.
    pub(super) fn below(&self, element: &PathElement) -> Option<&Self> {
        self.children.get(element)
    }

    /// Lists all paths in sorted order.
    pub(super) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        let all: BTreeSet<&PathElement> = self.members.iter().chain(self.children.keys()).collect();
        for element in all {
            prefix.push(element.clone());
            if self.members.contains(element) {
                paths.push(prefix.clone());
            }
            if let Some(child) = self.children.get(element) {
                child.collect(prefix, paths);
            }
            prefix.pop();
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (element, child) in &self.children {
            let mut below = child.to_json();
            if self.members.contains(element) {
                below["."] = Value::Object(Map::new());
            }
            map.insert(element.encode(), below);
        }
        for element in &self.members {
            map.entry(element.encode()).or_insert_with(|| Value::Object(Map::new()));
        }
        Value::Object(map)
    }

    /// Decodes `fieldsV1`; `None` if it is malformed.
    pub(super) fn from_json(fields: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, below) in fields.as_object()? {
            if key == "." {
                continue;
            }
            let element = PathElement::decode(key)?;
            let map = below.as_object()?;
            if map.is_empty() || map.contains_key(".") {
                set.members.insert(element.clone());
            }
            let child = Self::from_json(below)?;
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        Some(set)
    }
}
