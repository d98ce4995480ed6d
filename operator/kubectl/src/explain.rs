//! Errors of the API server in words for the user.

use kube::core::Status;

use crate::PluginError;
use crate::answer_limit::LateAnswer;

/// Turns an error of the API server into one for the user.
pub(crate) fn explain(what: &str, error: &kube::Error) -> PluginError {
    let what = what.to_owned();
    match error {
        kube::Error::Api(status) if status.is_forbidden() => {
            PluginError::Forbidden { what, said: status.message.clone() }
        }
        kube::Error::Api(status) if status.code == 401 => PluginError::NotSignedIn,
        kube::Error::Api(status) if status.code == 404 => explain_missing(status),
        kube::Error::Api(status) => PluginError::Kube { what, said: status.message.clone() },
        kube::Error::SerdeError(error) => {
            PluginError::NotUnderstood { what, said: error.to_string() }
        }
        kube::Error::Service(cause) if cause.is::<LateAnswer>() => {
            PluginError::NoCluster(cause.to_string())
        }
        kube::Error::Auth(error) => PluginError::NoCredentials(with_causes(error)),
        other => PluginError::NoCluster(with_causes(other)),
    }
}

/// The text of an error with those of its causes, as far as it does not repeat them itself.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        source = cause.source();
    }
    said
}

/// An object, or its namespace, is not there; or a path that the server does not know: no definition.
fn explain_missing(status: &Status) -> PluginError {
    let details = status.details.as_ref();
    let named = details.map(|details| (details.kind.as_str(), details.name.as_str()));
    match named {
        Some(("namespaces", name)) if !name.is_empty() => PluginError::NotFound(format!(
            "there is no namespace `{name}`: create it (`kubectl create namespace {name}`), or name another one with -n"
        )),
        Some((_, name)) if !name.is_empty() => PluginError::NotFound(status.message.clone()),
        _ => PluginError::NotInstalled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BIND_SECRETS, MAKE_NAMESPACE};

    fn told(status: serde_json::Value) -> String {
        let status: Status = serde_json::from_value(status).unwrap();
        explain("read it", &kube::Error::Api(Box::new(status))).to_string()
    }

    #[test]
    fn what_is_missing_is_named_and_not_always_the_product() {
        let missing = |details: serde_json::Value, message: &str| {
            told(serde_json::json!({
                "status": "Failure", "code": 404, "reason": "NotFound", "message": message,
                "details": details,
            }))
        };
        let unknown =
            missing(serde_json::json!({}), "the server could not find the requested resource");
        assert!(unknown.contains("install the charts first"), "{unknown}");
        let details = serde_json::json!({"name": "shop", "kind": "namespaces"});
        let space = missing(details, "namespaces \"shop\" not found");
        assert!(space.contains("kubectl create namespace shop"), "{space}");
        let details = serde_json::json!({"name": "pod-1", "kind": "pods"});
        assert_eq!(missing(details, "pods \"pod-1\" not found"), "pods \"pod-1\" not found");
        let away = told(
            serde_json::json!({"status": "Failure", "code": 401, "reason": "Unauthorized", "message": ""}),
        );
        assert!(away.contains("sign in"), "{away}");
    }

    #[test]
    fn an_answer_that_is_not_understood_is_no_missing_cluster() {
        let broken = serde_json::from_str::<bool>("\"containers\"").unwrap_err();
        let told = explain("list Repos", &kube::Error::SerdeError(broken)).to_string();
        assert!(told.contains("list Repos failed") && told.contains("invalid type"), "{told}");
        assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
        assert!(!told.contains("can't be reached"), "{told}");
    }

    #[test]
    fn a_cluster_that_accepts_a_request_and_does_not_answer_is_named_so() {
        let late = LateAnswer(std::time::Duration::from_secs(90));
        let told = explain("list Repos", &kube::Error::Service(Box::new(late))).to_string();
        let part = "can't be reached: it has not answered within 90 seconds. See that it runs";
        assert!(told.contains(part), "{told}");
    }

    #[test]
    fn a_missing_right_names_the_role_that_has_it() {
        let refused = |what: &str| {
            let status = serde_json::json!({
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
            });
            let status: Status = serde_json::from_value(status).unwrap();
            explain(what, &kube::Error::Api(Box::new(status))).to_string()
        };
        assert!(refused("list Repos").contains("role `view` or `edit`"));
        assert!(refused(BIND_SECRETS).contains("role `admin`"));
        assert!(refused(MAKE_NAMESPACE).contains("Ask an administrator to create it"));
    }
}
