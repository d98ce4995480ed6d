//! The part of JSONPath that definitions use for columns and selectable fields.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    Field(String),
    Index(i64),
    All,
    /// Items whose field (a path below the item) equals a value.
    Where(Vec<String>, Value),
}

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<PathStep>);

impl JsonPath {
    /// Parses a path; nothing if it uses what is not supported here.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('$');
        let mut rest = text;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = find_closing(after)?;
                steps.push(read_bracket(&after[..end])?);
                rest = &after[end + 1..];
            } else {
                let after = rest.strip_prefix('.')?;
                let (field, tail) = read_field(after);
                if field == "*" {
                    steps.push(PathStep::All);
                } else if !field.is_empty() {
                    steps.push(PathStep::Field(field));
                } else if !tail.is_empty() && !tail.starts_with('[') {
                    return None;
                }
                rest = tail;
            }
        }
        Some(Self(steps))
    }

    /// All values that the path selects.
    pub(super) fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|v| step.apply(v)).collect();
        }
        found
    }

    /// The first value that the path selects.
    pub(super) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.select(value).into_iter().next()
    }
}

impl PathStep {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = if *index < 0 {
                    items.len().checked_sub(usize::try_from(-index).unwrap_or(usize::MAX))
                } else {
                    usize::try_from(*index).ok()
                };
                at.and_then(|i| items.get(i)).into_iter().collect()
            }
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            },
            Self::Where(path, wanted) => value
                .as_array()
                .into_iter()
                .flatten()
                .filter(|item| {
                    let found = path.iter().try_fold(*item, |v, name| v.get(name));
                    found == Some(wanted)
                })
                .collect(),
        }
    }
}

/// Position of the bracket that ends what starts after `[`.
fn find_closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_u32;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            // Anything in quotes, and everything else.
            _ => {}
        }
    }
    None
}

fn read_field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                if let Some((_, escaped)) = chars.next() {
                    name.push(escaped);
                }
            }
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

fn read_bracket(inside: &str) -> Option<PathStep> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(PathStep::All);
    }
    if let Ok(index) = inside.parse() {
        return Some(PathStep::Index(index));
    }
    if let Some(name) = unquote_text(inside) {
        return Some(PathStep::Field(name));
    }
    let condition = inside.strip_prefix("?(")?.strip_suffix(')')?;
    let (left, right) = condition.split_once("==")?;
    let path = left.trim().strip_prefix('@')?;
    let path =
        path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let right = right.trim();
    let wanted = match unquote_text(right) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(right).ok()?,
    };
    Some(PathStep::Where(path, wanted))
}

fn unquote_text(text: &str) -> Option<String> {
    ['\'', '"']
        .iter()
        .find_map(|&q| text.strip_prefix(q)?.strip_suffix(q))
        .map(|inner| inner.replace('\\', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_of_definitions_are_read() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "status": {"conditions": [
                {"type": "Other", "status": "False"},
                {"type": "Ready", "status": "True"}
            ]}
        });
        for (path, found) in [
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (".status.conditions[0].type", json!("Other")),
            (".status.conditions[-1].type", json!("Ready")),
            (".metadata.annotations['a.b/c']", json!("x")),
            (".metadata.annotations.a\\.b/c", json!("x")),
            (".status.conditions[*].type", json!("Other")),
        ] {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.first(&object), Some(&found), "{path}");
        }
        assert_eq!(JsonPath::parse("spec"), None);
        assert!(JsonPath::parse(".spec.missing").unwrap().first(&object).is_none());
    }
}
