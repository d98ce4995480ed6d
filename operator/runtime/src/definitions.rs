//! Checks that the cluster's CustomResourceDefinitions are those that this version was made for. A
//! field that the installed ones lack would be dropped by the API server without a word, and with
//! it marks, money or slots: so both processes wait for them before they do anything.
//!
//! What is installed is read from the published OpenAPI document, which needs no right of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use codebutler_crds::GROUP;
use kube::Client;
use serde_json::Value;

use crate::metrics::ReadyFlag;

/// Interval between two looks. The API server publishes a change a moment after it was made.
const EVERY: Duration = Duration::from_secs(2);
/// Fields that are named of those that are missing.
const NAMED: usize = 3;

/// Problem with the installed definitions.
#[derive(Debug, thiserror::Error)]
enum DefinitionProblem {
    /// The cluster has no definitions.
    #[error(
        "the cluster does not know the kinds of {GROUP}/v1alpha1: install the chart codebutler-crds, \
         version {}", env!("CARGO_PKG_VERSION")
    )]
    Missing,
    #[error(
        "the installed CustomResourceDefinitions are of another version, without {lacks}: upgrade \
         the chart codebutler-crds to {}", env!("CARGO_PKG_VERSION")
    )]
    Other { lacks: String },
    /// The API server could not be asked.
    #[error("the installed CustomResourceDefinitions can't be read")]
    Unknown(#[source] Box<kube::Error>),
}

/// Waits until they are installed, and says meanwhile what it waits for: in the log, and under
/// `/readyz`.
pub async fn await_definitions(client: &Client, ready: &ReadyFlag) {
    let mut told = String::new();
    while let Err(problem) = look_at_definitions(client).await {
        let why = problem.to_string();
        if why != told {
            let cause = std::error::Error::source(&problem).map(ToString::to_string);
            tracing::warn!(cause, %why, "crds_unready");
            ready.waits_for(Some(why.clone()));
            told = why;
        }
        tokio::time::sleep(EVERY).await;
    }
    ready.waits_for(None);
}

async fn look_at_definitions(client: &Client) -> Result<(), DefinitionProblem> {
    let request = http::Request::get(format!("/openapi/v3/apis/{GROUP}/v1alpha1"))
        .header(http::header::ACCEPT, "application/json")
        .body(Vec::new())
        .map_err(|error| DefinitionProblem::Unknown(Box::new(kube::Error::HttpError(error))))?;
    match client.request::<Value>(request).await {
        Ok(published) => match find_lacking(&published) {
            lacks if lacks.is_empty() => Ok(()),
            lacks => Err(DefinitionProblem::Other { lacks: list_lacking(&lacks) }),
        },
        Err(kube::Error::Api(status)) if status.code == 404 => Err(DefinitionProblem::Missing),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            // Every authenticated user may, by Kubernetes' own defaults.
            tracing::warn!("crd_check_skipped");
            Ok(())
        }
        Err(error) => Err(DefinitionProblem::Unknown(Box::new(error))),
    }
}

/// Kinds and fields that this version has and `published` has not.
fn find_lacking(published: &Value) -> Vec<String> {
    let schemas = published["components"]["schemas"].as_object();
    let mut lacks = Vec::new();
    for crd in codebutler_crds::all_definitions() {
        let kind = crd.spec.names.kind;
        let is_it = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|found| found["kind"] == *kind))
        };
        let Some(there) = schemas.and_then(|all| all.values().find(is_it)) else {
            lacks.push(kind);
            continue;
        };
        for version in crd.spec.versions.iter().filter(|version| version.name == "v1alpha1") {
            let schema = serde_json::to_value(&version.schema).unwrap_or_default();
            compare_fields(&kind, &schema["openAPIV3Schema"], there, &mut lacks);
        }
    }
    lacks
}

/// Adds what `wanted` has and `there` has not. What has no fields of its own has everything.
fn compare_fields(path: &str, wanted: &Value, there: &Value, lacks: &mut Vec<String>) {
    for (name, field) in wanted["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match there["properties"].get(name) {
            Some(there) => compare_fields(&path, field, there, lacks),
            None => lacks.push(path),
        }
    }
    if wanted["items"].is_object() {
        compare_fields(&format!("{path}[]"), &wanted["items"], &there["items"], lacks);
    }
    let values = &wanted["additionalProperties"];
    if values.is_object() {
        compare_fields(&format!("{path}.*"), values, &there["additionalProperties"], lacks);
    }
    let words = |schema: &Value| -> BTreeSet<String> {
        let words = schema["enum"].as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap_or_default().to_owned()).collect()
    };
    let (wanted, there) = (words(wanted), words(there));
    if !there.is_empty() {
        lacks.extend(wanted.difference(&there).map(|word| format!("{path}: {word}")));
    }
}

fn list_lacking(lacks: &[String]) -> String {
    let named =
        lacks.iter().take(NAMED).map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    match lacks.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Builds the document that an API server publishes for these definitions.
    fn published() -> Value {
        let mut schemas = serde_json::Map::new();
        for crd in codebutler_crds::all_definitions() {
            let mut schema =
                serde_json::to_value(&crd.spec.versions[0].schema).unwrap()["openAPIV3Schema"]
                    .take();
            let kind = &crd.spec.names.kind;
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": GROUP, "version": "v1alpha1", "kind": kind}]);
            schemas.insert(format!("dev.codebutler.v1alpha1.{kind}"), schema);
        }
        json!({"components": {"schemas": schemas}})
    }

    #[test]
    fn an_older_definition_is_told_by_what_it_lacks() {
        assert_eq!(find_lacking(&published()), Vec::<String>::new());
        let without = |pointer: &str, name: &str| {
            let mut older = published();
            older.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(name).unwrap();
            find_lacking(&older)
        };
        let thread = "/components/schemas/dev.codebutler.v1alpha1.Thread/properties";
        let role = format!("{thread}/status/properties/roles/additionalProperties/properties");
        assert_eq!(without(&role, "admitted"), ["Thread.status.roles.*.admitted"]);
        assert_eq!(without("/components/schemas", "dev.codebutler.v1alpha1.Repo"), ["Repo"]);
        let mut older = published();
        let state = format!("{thread}/spec/properties/state/enum");
        older.pointer_mut(&state).unwrap().as_array_mut().unwrap().retain(|word| word == "Active");
        assert_eq!(find_lacking(&older), ["Thread.spec.state: Closed"]);
        let many: Vec<String> = (0..5).map(|n| format!("Thread.spec.f{n}")).collect();
        assert!(list_lacking(&many).ends_with("`Thread.spec.f2` and 2 more"));
    }
}
