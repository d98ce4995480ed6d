//! The parts of a request that its handling depends on: path, query and headers as values.

use bytes::Bytes;
use http::{HeaderMap, Method};
use url::form_urlencoded;

use super::auth::{ApiUser, RequestAttributes};

/// A path below `/api` or `/apis` that names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    /// Namespace, or empty for cluster-wide requests.
    pub namespace: String,
    /// Plural name, such as `pods`.
    pub resource: String,
    /// Name, or empty for a collection.
    pub name: String,
    /// Subresource, or empty if none is addressed.
    pub subresource: String,
}

impl ResourcePath {
    /// Reads a path; nothing if it names no resource.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').peekable();
        let group = match parts.next()? {
            "api" => String::new(),
            "apis" => parts.next()?.to_owned(),
            _ => return None,
        };
        let version = parts.next()?.to_owned();
        let mut target = Self { group, version, ..Self::default() };
        let mut rest: Vec<&str> = parts.collect();
        if rest.len() >= 3 && rest[0] == "namespaces" && !is_namespace_subresource(&rest) {
            rest[1].clone_into(&mut target.namespace);
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        rest.next().filter(|r| !r.is_empty())?.clone_into(&mut target.resource);
        rest.next().unwrap_or_default().clone_into(&mut target.name);
        target.subresource = rest.collect::<Vec<_>>().join("/");
        Some(target)
    }
}

/// `namespaces/NAME/status` is about the namespace, `namespaces/NAME/pods` is not.
fn is_namespace_subresource(parts: &[&str]) -> bool {
    parts.len() == 3 && matches!(parts[2], "status" | "finalize")
}

/// Query parameters of a request, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestQuery(Vec<(String, String)>);

impl RequestQuery {
    pub(super) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter; empty values count as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str())
    }

    /// True if a parameter is present, whatever its value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// True if a boolean parameter is set.
    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "True"))
    }

    /// Value of a numeric parameter, if it is valid.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// A request with its whole body.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest {
    pub method: Method,
    pub path: String,
    pub query: RequestQuery,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The resource that the path names, if it names one.
    pub target: Option<ResourcePath>,
    /// Authenticated user who makes the request.
    pub user: ApiUser,
}

impl ApiRequest {
    /// Text of a header; empty if it is absent or not text.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    /// The media type of the body, without parameters.
    pub(super) fn content_type(&self) -> &str {
        self.header("content-type").split(';').next().unwrap_or_default().trim()
    }

    /// True if the request is a watch.
    pub(super) fn is_watch(&self) -> bool {
        self.method == Method::GET && self.query.flag("watch")
    }

    /// The manager under whose name fields are recorded: what the request says, or the client's
    /// program name.
    pub(super) fn field_manager(&self) -> String {
        match self.query.get("fieldManager") {
            Some(manager) => manager.to_owned(),
            None => match self.header("user-agent").split('/').next() {
                None | Some("") => "unknown".to_owned(),
                Some(program) => program.to_owned(),
            },
        }
    }

    /// True if the request is a dry run, which stores nothing.
    pub(super) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun") == Some("All")
    }

    /// The action for authorization.
    pub(super) fn attributes(&self) -> RequestAttributes {
        let Some(target) = &self.target else {
            return RequestAttributes {
                verb: self.method.as_str().to_lowercase(),
                path: self.path.clone(),
                ..RequestAttributes::default()
            };
        };
        let one = !target.name.is_empty();
        let verb = match (self.method.as_str(), one) {
            ("GET", true) => "get",
            ("GET", false) if self.is_watch() => "watch",
            ("GET", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => "",
        };
        // A list of one name is about that name, so that rules with names can allow it.
        let name = if one {
            target.name.clone()
        } else {
            self.query
                .get("fieldSelector")
                .and_then(|s| s.strip_prefix("metadata.name="))
                .filter(|name| !name.contains(','))
                .unwrap_or_default()
                .to_owned()
        };
        let namespace = if target.group.is_empty() && target.resource == "namespaces" {
            target.name.clone()
        } else {
            target.namespace.clone()
        };
        RequestAttributes {
            verb: verb.to_owned(),
            group: target.group.clone(),
            resource: target.resource.clone(),
            subresource: target.subresource.clone(),
            namespace,
            name,
            path: self.path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> (String, String, String, String, String) {
        let t = ResourcePath::parse(path).expect(path);
        (t.group, t.namespace, t.resource, t.name, t.subresource)
    }

    #[test]
    fn paths_name_resources() {
        let parts = |g: &str, ns: &str, r: &str, n: &str, s: &str| {
            (g.to_owned(), ns.to_owned(), r.to_owned(), n.to_owned(), s.to_owned())
        };
        assert_eq!(target("/api/v1/pods"), parts("", "", "pods", "", ""));
        assert_eq!(target("/api/v1/namespaces/a"), parts("", "", "namespaces", "a", ""));
        assert_eq!(
            target("/api/v1/namespaces/a/status"),
            parts("", "", "namespaces", "a", "status")
        );
        assert_eq!(target("/api/v1/namespaces/a/pods/b/log"), parts("", "a", "pods", "b", "log"));
        assert_eq!(
            target("/apis/codebutler.dev/v1alpha1/namespaces/a/threads/t/status"),
            parts("codebutler.dev", "a", "threads", "t", "status")
        );
        assert_eq!(ResourcePath::parse("/api/v1"), None);
        assert_eq!(ResourcePath::parse("/apis/apps"), None);
        assert_eq!(ResourcePath::parse("/version"), None);
    }
}
