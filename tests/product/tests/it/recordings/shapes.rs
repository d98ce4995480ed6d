//! The shapes of a service's answers as `tests/recordings` has them, and what of an answer differs.
//! `tests/recordings/README.md` describes the format.

use std::collections::BTreeMap;

use serde_json::Value;

/// Type of an answer or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// Matches any value.
    Any,
    /// `null`, `string`, `integer`, `number`, `boolean`, `object`.
    Plain(String),
    /// Reference to a type that is described elsewhere.
    Named(String),
    List(Box<Shape>),
    /// Union of these types.
    Either(Vec<Shape>),
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    required: bool,
    shape: Shape,
}

/// The answers of one service.
pub(super) struct Shapes {
    answers: BTreeMap<String, Shape>,
    named: BTreeMap<String, Vec<Field>>,
}

impl Shapes {
    /// Parses the text of a recording.
    pub(super) fn read(text: &str) -> Self {
        let (mut answers, mut named) = (BTreeMap::new(), BTreeMap::new());
        for line in logical_lines(text) {
            let (key, body) = line.split_once(':').unwrap_or_else(|| panic!("no colon: {line}"));
            if key.contains(' ') {
                answers.insert(key.to_owned(), shape(body.trim()));
            } else {
                let fields = body.split(", ").map(str::trim).filter(|field| !field.is_empty());
                named.insert(key.to_owned(), fields.map(field).collect::<Vec<_>>());
            }
        }
        Self { answers, named }
    }

    /// Lists the differences between an answer and its recording.
    pub(super) fn differences(&self, answer: &str, value: &Value) -> Vec<String> {
        match self.answers.get(answer) {
            Some(shape) => self.compare(shape, value, answer),
            None => vec![format!("{answer} is not recorded")],
        }
    }

    fn compare(&self, shape: &Shape, value: &Value, at: &str) -> Vec<String> {
        match shape {
            Shape::Any => Vec::new(),
            Shape::Plain(kind) if is_a(kind, value) => Vec::new(),
            Shape::Plain(kind) => vec![format!("{at} is no {kind}: {value}")],
            Shape::Named(name) => match value {
                Value::Object(_) => self.compare_fields(name, value, at),
                _ => vec![format!("{at} is no {name}: {value}")],
            },
            Shape::List(item) => match value {
                Value::Array(items) => {
                    let at = format!("{at}[]");
                    items.iter().flat_map(|one| self.compare(item, one, &at)).collect()
                }
                _ => vec![format!("{at} is no list: {value}")],
            },
            Shape::Either(shapes) => {
                let all = shapes.iter().map(|shape| self.compare(shape, value, at));
                all.min_by_key(Vec::len).unwrap_or_default()
            }
        }
    }

    fn compare_fields(&self, name: &str, value: &Value, at: &str) -> Vec<String> {
        let Some(fields) = self.named.get(name) else {
            return vec![format!("{name} is named at {at}, and not described")];
        };
        let mut wrong = Vec::new();
        for (key, value) in value.as_object().into_iter().flatten() {
            match fields.iter().find(|field| field.name == *key) {
                Some(field) => {
                    wrong.extend(self.compare(&field.shape, value, &format!("{at}.{key}")));
                }
                None => wrong.push(format!("{at}.{key} is no field of {name}")),
            }
        }
        let missing =
            fields.iter().filter(|field| field.required && value.get(&field.name).is_none());
        wrong.extend(missing.map(|field| format!("{at}.{} is not said", field.name)));
        wrong
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// Lines without remarks; one that is indented goes on with the one before it.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        match lines.last_mut().filter(|_| line.starts_with(' ')) {
            Some(last) => *last = format!("{last} {}", line.trim()),
            None => lines.push(line.trim_end().to_owned()),
        }
    }
    lines
}

fn field(text: &str) -> Field {
    let (name, kind) = text.split_once(' ').unwrap_or_else(|| panic!("no kind: {text}"));
    let required = !name.ends_with('?');
    Field { name: name.trim_end_matches('?').to_owned(), required, shape: shape(kind.trim()) }
}

fn shape(text: &str) -> Shape {
    let parts = alternatives(text);
    if let [_, _, ..] = parts[..] {
        return Shape::Either(parts.into_iter().map(shape).collect());
    }
    if let Some(item) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Shape::List(Box::new(shape(item)));
    }
    match text {
        "any" => Shape::Any,
        "null" | "string" | "integer" | "number" | "boolean" | "object" => {
            Shape::Plain(text.to_owned())
        }
        name => Shape::Named(name.to_owned()),
    }
}

/// Splits a union such as `a|[b|c]` into its parts.
fn alternatives(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            '|' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

#[test]
fn a_difference_is_named_with_its_place() {
    use serde_json::json;

    let text = "# A remark.\nGET /a 200: [one]\n\none: id integer, name?\n  string|null, list [string|other]\n\
                other: is boolean, free? object, more? any\n";
    let shapes = Shapes::read(text);
    let of = |value| shapes.differences("GET /a 200", &value);
    let right = json!([{"id": 1, "name": null, "list": ["a", {"is": true, "free": {"x": 1}}]}]);
    assert_eq!(of(right), Vec::<String>::new());
    let wrong = json!([{"id": "1", "list": [{"is": 1, "new": 2}], "name": 3}, {"id": 1}]);
    assert_eq!(
        of(wrong),
        [
            "GET /a 200[].id is no integer: \"1\"",
            "GET /a 200[].list[] is no string: {\"is\":1,\"new\":2}",
            "GET /a 200[].name is no string: 3",
            "GET /a 200[].list is not said",
        ]
    );
    assert_eq!(shapes.differences("GET /b 200", &json!({})), ["GET /b 200 is not recorded"]);
}
