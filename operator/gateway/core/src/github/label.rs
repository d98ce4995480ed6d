//! Labels of an issue: objects at GitHub, plain names by its own schema and at hosts that imitate it.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum IssueLabel {
    Name(String),
    Object {
        #[serde(default)]
        name: Option<String>,
    },
    /// An entry without a usable name.
    Other(serde::de::IgnoredAny),
}

impl IssueLabel {
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Object { name } => name.as_deref(),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_odd_label_takes_nothing_else_with_it() {
        let labels = json!([{"name": "bug", "id": 1}, "urgent", {"name": null}, {"id": 2}, null, 7, {"name": 3}]);
        let labels: Vec<IssueLabel> = serde_json::from_value(labels).unwrap();
        let names: Vec<_> = labels.iter().filter_map(IssueLabel::name).collect();
        assert_eq!(names, ["bug", "urgent"]);
    }
}
