//! The downward API: fields of a pod as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// A field path that a container can't be given.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported field path {0:?}")]
pub struct FieldError(pub String);

/// The value of `path`. Empty where the pod has none yet.
pub(super) fn field_value(pod: &Pod, path: &str) -> Result<String, FieldError> {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let text = match path {
        "metadata.name" => Some(pod.name_any()),
        "metadata.namespace" => pod.namespace(),
        "metadata.uid" => pod.uid(),
        "metadata.labels" => Some(map_lines(pod.labels())),
        "metadata.annotations" => Some(map_lines(pod.annotations())),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" => Some(super::HOST_IP.to_string()),
        "status.podIP" | "status.podIPs" => status.and_then(|status| status.pod_ip.clone()),
        _ => {
            let key = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
            if let Some(key) = key("metadata.labels['") {
                pod.labels().get(key).cloned()
            } else if let Some(key) = key("metadata.annotations['") {
                pod.annotations().get(key).cloned()
            } else {
                return Err(FieldError(path.to_owned()));
            }
        }
    };
    Ok(text.unwrap_or_default())
}

/// Lists the entries of a map as `key="value"`, one a line, as in the files of a downward API volume.
fn map_lines(map: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in map {
        let _ = writeln!(text, "{key}={value:?}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn fields_by_path() {
        let pod: Pod = from_value(json!({
            "metadata": {"name": "p", "labels": {"a/b": "c"}}, "status": {"podIP": "10.0.0.1"},
        }))
        .unwrap();
        let value = |path| field_value(&pod, path);
        assert_eq!(value("metadata.name").unwrap(), "p");
        assert_eq!(value("metadata.labels['a/b']").unwrap(), "c");
        assert_eq!(value("metadata.labels").unwrap(), "a/b=\"c\"\n");
        assert_eq!(value("metadata.annotations['x']").unwrap(), "");
        assert_eq!(value("status.podIP").unwrap(), "10.0.0.1");
        assert!(value("spec.containers").is_err());
    }
}
