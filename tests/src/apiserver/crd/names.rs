//! Checks that a definition's names are not taken, and the conditions in its status that say so.

use serde_json::{Value, json};

use crate::apiserver::object::{self, text_at};

/// The reason why a definition's names can't be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameConflict {
    reason: &'static str,
    message: String,
}

/// Finds a name that `others`, definitions of any group, have taken. Of several conflicts the last one
/// is returned.
pub(crate) fn find_conflict(definition: &Value, others: &[Value]) -> Option<NameConflict> {
    let own = |pointer: &str| text_at(definition, pointer).unwrap_or_default().to_owned();
    let others: Vec<&Value> = others
        .iter()
        .filter(|other| text_at(other, "/spec/group") == text_at(definition, "/spec/group"))
        .filter(|other| {
            object::object_name(other) != object::object_name(definition) && are_accepted(other)
        })
        .collect();
    let resources: Vec<String> = others.iter().flat_map(|other| resource_names(other)).collect();
    let kinds = |pointers: &[&str]| -> Vec<String> {
        let of = |other: &&Value| {
            let found = pointers.iter().filter_map(|pointer| text_at(other, pointer));
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        others.iter().flat_map(of).collect()
    };
    let kinds = kinds(&["/spec/names/kind", "/spec/names/listKind"]);
    let short = definition.pointer("/spec/names/shortNames").and_then(Value::as_array);
    let short = short.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let checks = [
        ("PluralConflict", own("/spec/names/plural"), &resources),
        ("SingularConflict", own("/spec/names/singular"), &resources),
    ]
    .into_iter()
    .chain(short.map(|name| ("ShortNamesConflict", name, &resources)))
    .chain([
        ("KindConflict", own("/spec/names/kind"), &kinds),
        ("ListKindConflict", own("/spec/names/listKind"), &kinds),
    ]);
    let mut taken = checks.filter(|(_, name, taken)| !name.is_empty() && taken.contains(name));
    taken.next_back().map(|(reason, name, _)| NameConflict {
        reason,
        message: format!("\"{name}\" is already in use"),
    })
}

fn resource_names(definition: &Value) -> Vec<String> {
    let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let one = ["plural", "singular"].into_iter().filter_map(|field| names[field].as_str());
    let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    one.chain(short).map(str::to_owned).collect()
}

/// True if a definition's status says that its names are accepted.
pub(crate) fn are_accepted(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "NamesAccepted" && c["status"] == "True")
}

/// Sets the conditions by which a definition's names are refused. It is not served as long as that lasts.
pub(crate) fn refuse_names(definition: &mut Value, conflict: &NameConflict, now: &str) {
    let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    status["acceptedNames"] = json!({"plural": "", "kind": ""});
    status["conditions"] = json!([
        {
            "type": "NamesAccepted", "status": "False", "lastTransitionTime": now,
            "reason": conflict.reason, "message": conflict.message,
        },
        {
            "type": "Established", "status": "False", "lastTransitionTime": now,
            "reason": "NotAccepted", "message": "not all names are accepted",
        },
    ]);
    object::set_field(definition, "status", Some(status));
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn definition(plural: &str, kind: &str, accepted: &str) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.acme.dev")},
            "spec": {"group": "acme.dev", "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List"), "shortNames": ["w"]}},
            "status": {"conditions": [{"type": "NamesAccepted", "status": accepted}]},
        })
    }

    #[test]
    fn only_accepted_names_of_the_group_are_taken() {
        let widgets = definition("widgets", "Widget", "True");
        let found =
            find_conflict(&definition("gadgets", "Widget", "True"), from_ref(&widgets)).unwrap();
        assert_eq!(
            (found.reason, &*found.message),
            ("ListKindConflict", "\"WidgetList\" is already in use")
        );
        let short =
            find_conflict(&definition("gadgets", "Gadget", "True"), from_ref(&widgets)).unwrap();
        assert_eq!(short.reason, "ShortNamesConflict");
        assert_eq!(find_conflict(&widgets, from_ref(&widgets)), None, "its own");
        let waiting = definition("gadgets", "Widget", "False");
        assert_eq!(find_conflict(&widgets, &[waiting]), None);
        let mut elsewhere = definition("gadgets", "Widget", "True");
        elsewhere["spec"]["group"] = "other.dev".into();
        assert_eq!(find_conflict(&widgets, &[elsewhere]), None);
    }
}
