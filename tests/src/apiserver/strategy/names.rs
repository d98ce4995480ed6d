//! Names, labels and annotations.

use serde_json::Value;

use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object;
use crate::apiserver::status::StatusCause;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// All annotations of an object together, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Lists the mistakes in an object's metadata.
pub(crate) fn check_meta(
    kind: &ServedKind,
    value: &Value,
    live: Option<&Value>,
) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let name = object::object_name(value);
    let bad = |why: String| vec![StatusCause::invalid("metadata.name", &name.into(), &why)];
    causes.extend(match (kind.group.as_str(), kind.plural.as_str()) {
        _ if name.is_empty() => {
            vec![StatusCause::required("metadata.name", "name or generateName is required")]
        }
        ("rbac.authorization.k8s.io", _) => match name {
            "." | ".." => bad(format!("may not be '{name}'")),
            _ if name.contains(['/', '%']) => bad("may not contain '/' or '%'".to_owned()),
            _ => Vec::new(),
        },
        ("", "namespaces" | "services") => check_label(name).map(bad).unwrap_or_default(),
        _ => check_subdomain(name).map(bad).unwrap_or_default(),
    });
    for (key, value) in map_entries(value, "labels") {
        causes.extend(
            check_qualified(key)
                .map(|why| StatusCause::invalid("metadata.labels", &key.into(), &why)),
        );
        let text = value.as_str().unwrap_or_default();
        causes.extend(
            label_value(text)
                .map(|why| StatusCause::invalid("metadata.labels", &text.into(), &why)),
        );
    }
    let mut total = 0;
    for (key, value) in map_entries(value, "annotations") {
        total += key.len() + value.as_str().map_or(0, str::len);
        causes.extend(
            check_qualified(&key.to_lowercase())
                .map(|why| StatusCause::invalid("metadata.annotations", &key.into(), &why)),
        );
    }
    if total > MAX_ANNOTATIONS {
        causes.push(StatusCause {
            field: "metadata.annotations".to_owned(),
            reason: "FieldValueTooLong",
            detail: format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes"),
        });
    }
    for (index, finalizer) in object::list_finalizers(value).enumerate() {
        causes.extend(
            check_qualified(finalizer)
                .map(|why| StatusCause::invalid("metadata.finalizers", &finalizer.into(), &why)),
        );
        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
        if kind.custom().is_none()
            && !standard
            && !finalizer.contains('/')
            && kind.group != "apiextensions.k8s.io"
        {
            causes.push(StatusCause::invalid(
                format!("metadata.finalizers[{index}]"),
                &finalizer.into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    causes.extend(check_owners(value));
    if let Some(live) = live.filter(|live| object::is_terminating(live)) {
        let old: Vec<&str> = object::list_finalizers(live).collect();
        let new: Vec<&str> = object::list_finalizers(value).filter(|f| !old.contains(f)).collect();
        if !new.is_empty() {
            let quoted: Vec<String> = new.iter().map(|f| format!("\"{f}\"")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            causes.push(StatusCause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

fn check_owners(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let owners = object::meta_field(value, "ownerReferences").and_then(Value::as_array);
    let mut controller = None;
    for owner in owners.into_iter().flatten() {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(field).is_empty() {
                let what = if field == "apiVersion" { "version" } else { field };
                causes.push(StatusCause::invalid(
                    // Without an index, as upstream.
                    format!("metadata.ownerReferences.{field}"),
                    &"".into(),
                    &format!("{what} must not be empty"),
                ));
            }
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let shown = format!("{}/{}", text("kind"), text("name"));
        if let Some(first) = &controller {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {shown}",
            );
            let all = object::meta_field(value, "ownerReferences").unwrap_or(&Value::Null);
            causes.push(StatusCause::invalid("metadata.ownerReferences", all, &why));
        } else {
            controller = Some(shown);
        }
    }
    causes
}

fn map_entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = object::meta_field(value, field).and_then(Value::as_object);
    map.into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    text.starts_with(is_lower)
        && text.ends_with(is_lower)
        && text.chars().all(|c| is_lower(c) || c == '-')
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Explains why a text is not an RFC 1123 label; `None` if it is one.
pub(super) fn check_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    if is_label(text) {
        return None;
    }
    let dots = check_subdomain(text).is_none();
    Some(if dots { "must not contain dots" } else { LABEL }.to_owned())
}

fn check_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some(too_long(253));
    }
    (!text.split('.').all(is_label)).then(|| SUBDOMAIN.to_owned())
}

fn is_name_part(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}

fn check_qualified(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty".to_owned());
        }
        if let Some(why) = check_subdomain(prefix) {
            return Some(format!("prefix part {why}"));
        }
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some(format!("name part {}", too_long(63)));
    }
    (!is_name_part(name)).then(|| QUALIFIED.to_owned())
}

fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    (!text.is_empty() && !is_name_part(text)).then(|| LABEL_VALUE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rfcs() {
        assert!(check_label("a-1").is_none());
        assert!(
            check_label("-a").is_some() && check_label("A").is_some() && check_label("").is_some()
        );
        assert!(check_subdomain("a.b-c.d").is_none() && check_subdomain("a..b").is_some());
        assert!(check_qualified("codebutler.dev/role").is_none());
        assert!(check_qualified("/x").is_some() && check_qualified("a/b/c").is_some());
        assert!(label_value("").is_none() && label_value("a b").is_some());
    }
}
