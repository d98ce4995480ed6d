//! Label and field selectors.

use serde_json::Value;

use super::kinds::ServedKind;
use super::object;
use super::status::ApiError;

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    Exists(bool),
    In(Vec<String>, bool),
    Greater(i64),
    Less(i64),
}

/// Label and field selectors of a list or watch.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectSelector {
    labels: Vec<(String, LabelTest)>,
    /// JSON pointer or custom path, wanted value, and whether it must be equal.
    fields: Vec<(String, String, bool)>,
}

impl ObjectSelector {
    /// Parses both selectors for a kind.
    pub(super) fn parse(kind: &ServedKind, labels: &str, fields: &str) -> Result<Self, ApiError> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(kind, fields)? })
    }

    /// True if the selector is empty and selects everything.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only name that can be selected, if there is one.
    pub(super) fn name(&self) -> Option<&str> {
        let named = self.fields.iter().find(|(field, _, equal)| *equal && field == "metadata.name");
        named.map(|(_, name, _)| name.as_str())
    }

    /// True if the object is selected.
    pub(super) fn matches(&self, kind: &ServedKind, object: &Value) -> bool {
        let labels = object::meta_field(object, "labels");
        self.labels
            .iter()
            .all(|(key, test)| test.holds(labels.and_then(|l| l.get(key)).and_then(Value::as_str)))
            && self.fields.iter().all(|(field, wanted, equal)| {
                (field_value(kind, object, field) == *wanted) == *equal
            })
    }
}

impl LabelTest {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists(wanted) => value.is_some() == *wanted,
            Self::In(values, true) => value.is_some_and(|v| values.iter().any(|x| x == v)),
            Self::In(values, false) => value.is_none_or(|v| !values.iter().any(|x| x == v)),
            Self::Greater(n) => parse_number(value).is_some_and(|v| v > *n),
            Self::Less(n) => parse_number(value).is_some_and(|v| v < *n),
        }
    }
}

fn parse_number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// Fields that can be selected besides name and namespace, by table.
fn selectable_fields(kind: &ServedKind) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("apps", "replicasets") => &["status.replicas"],
        _ => &[],
    }
}

fn field_value(kind: &ServedKind, object: &Value, field: &str) -> String {
    if let Some(custom) = kind.custom()
        && let Some((_, path)) = custom.selectable.iter().find(|(name, _)| name == field)
    {
        return path.first(object).map(show_value).unwrap_or_default();
    }
    // Events are stored in the core form; the other API has other names for the same fields.
    let stored = match field.strip_prefix("regarding.") {
        Some(rest) => format!("involvedObject.{rest}"),
        None if field == "reportingController" => "reportingComponent".to_owned(),
        None if field == "source" => "source.component".to_owned(),
        None => field.to_owned(),
    };
    match object.pointer(&format!("/{}", stored.replace('.', "/"))) {
        Some(value) => show_value(value),
        None if matches!(field, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        None => String::new(),
    }
}

fn show_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parse_fields(kind: &ServedKind, text: &str) -> Result<Vec<(String, String, bool)>, ApiError> {
    let mut fields = Vec::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (field, value, equal) = if let Some((f, v)) = part.split_once("!=") {
            (f, v, false)
        } else if let Some((f, v)) = part.split_once("==") {
            (f, v, true)
        } else if let Some((f, v)) = part.split_once('=') {
            (f, v, true)
        } else {
            return Err(ApiError::bad_request(format!(
                "Unable to find \"{}\" that match label selector \"\", field selector \"{text}\": invalid selector: '{part}'; can't understand '{part}'",
                kind.plural
            )));
        };
        let known = matches!(field, "metadata.name" | "metadata.namespace")
            || selectable_fields(kind).contains(&field)
            || kind.custom().is_some_and(|c| c.selectable.iter().any(|(name, _)| name == field));
        if !known {
            let own = kind.custom().is_some() || !selectable_fields(kind).is_empty();
            return Err(ApiError::bad_request(if own {
                format!("field label not supported: {field}")
            } else {
                format!(
                    "\"{field}\" is not a known field selector: only \"metadata.name\", \
                     \"metadata.namespace\""
                )
            }));
        }
        fields.push((field.to_owned(), value.to_owned(), equal));
    }
    Ok(fields)
}

fn parse_labels(text: &str) -> Result<Vec<(String, LabelTest)>, ApiError> {
    split_outside_parentheses(text).into_iter().map(parse_label).collect()
}

fn parse_label(part: &str) -> Result<(String, LabelTest), ApiError> {
    let bad = || {
        ApiError::bad_request(format!(
            "unable to parse requirement: found '{part}', expected: label selector"
        ))
    };
    let (key, test) = if let Some(key) = part.strip_prefix('!') {
        (key, LabelTest::Exists(false))
    } else if let Some((key, values)) = part.split_once(" notin ") {
        (key, LabelTest::In(parse_set(values).ok_or_else(bad)?, false))
    } else if let Some((key, values)) = part.split_once(" in ") {
        (key, LabelTest::In(parse_set(values).ok_or_else(bad)?, true))
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, LabelTest::In(vec![value.trim().to_owned()], false))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, LabelTest::In(vec![value.trim().to_owned()], true))
    } else if let Some((key, value)) = part.split_once('>') {
        (key, LabelTest::Greater(value.trim().parse().map_err(|_| bad())?))
    } else if let Some((key, value)) = part.split_once('<') {
        (key, LabelTest::Less(value.trim().parse().map_err(|_| bad())?))
    } else {
        (part, LabelTest::Exists(true))
    };
    let key = key.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(bad());
    }
    Ok((key.to_owned(), test))
}

fn parse_set(text: &str) -> Option<Vec<String>> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some(inside.split(',').map(|v| v.trim().to_owned()).collect())
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_u32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::kinds::KindRegistry;
    use serde_json::json;

    #[test]
    fn labels_are_selected_as_kubectl_writes_them() {
        let kinds = KindRegistry::new();
        let kind = kinds.find("", "v1", "pods").unwrap();
        let pod = json!({
            "metadata": {"name": "p", "labels": {"app": "web", "tier": "3"}},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        });
        for (labels, fields, wanted) in [
            ("", "", true),
            ("app=web", "", true),
            ("app==web,tier", "", true),
            ("app!=web", "", false),
            ("missing!=x", "", true),
            ("app in (web, api),tier notin (4,5)", "", true),
            ("!app", "", false),
            ("tier>2,tier<4", "", true),
            ("", "metadata.name=p,spec.nodeName!=m", true),
            ("", "status.phase=Pending", false),
        ] {
            let selector = ObjectSelector::parse(&kind, labels, fields).unwrap();
            assert_eq!(selector.matches(&kind, &pod), wanted, "{labels} {fields}");
        }
        assert!(ObjectSelector::parse(&kind, "a b", "").is_err());
        assert!(ObjectSelector::parse(&kind, "", "spec.bogus=1").is_err());
    }
}
