//! Effects of a write in the server itself: definitions come and go with their kinds and objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{self, CLEANUP, DeleteRequest};
use crate::apiserver::ServerState;
use crate::apiserver::crd::names;
use crate::apiserver::crd_definition;
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::store::StoredObject;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl ServerState {
    /// Called after every write, with the state that was written last.
    pub(in crate::apiserver) fn after_write(&self, kind: &ServedKind, value: &Value) {
        if kind.is("apiextensions.k8s.io", "customresourcedefinitions") {
            self.after_definition(object::object_name(value));
        } else if kind.custom().is_some() && object::is_terminating(value) {
            self.finish_definition(&kind.table);
        }
    }

    fn after_definition(&self, name: &str) {
        let Some(stored) = self.store.get(DEFINITIONS, "", name) else {
            let (plural, group) = name.split_once('.').unwrap_or((name, ""));
            self.kinds.replace_custom(group, plural, Vec::new());
            self.store.wake(name);
            self.settle_names(group);
            return;
        };
        let stored = self.accept_names(stored);
        let definition = &stored.value;
        let (group, plural) = (
            text_at(definition, "/spec/group").unwrap_or_default(),
            text_at(definition, "/spec/names/plural").unwrap_or_default(),
        );
        let kinds = crd_definition::kinds_of(definition);
        if let Some(served) = kinds.first().filter(|_| object::is_terminating(definition)) {
            for object in self.store.list(&served.table, None).0 {
                // Errors are ignored: an object that is gone needs no deletion, and one with finalizers
                // goes later.
                let _ = self.delete(served, &object, &DeleteRequest::default());
            }
            self.finish_definition(&served.table);
            return;
        }
        let kinds = if names::are_accepted(definition) { kinds } else { Vec::new() };
        self.kinds.replace_custom(group, plural, kinds);
    }

    /// A definition as it is once it is known whether its names are its own.
    fn accept_names(&self, stored: Arc<StoredObject>) -> Arc<StoredObject> {
        let all: Vec<Value> =
            self.store.list(DEFINITIONS, None).0.iter().map(|other| other.value.clone()).collect();
        let (mut value, now) = (stored.value.clone(), object::now_text());
        match names::find_conflict(&value, &all) {
            Some(conflict) => names::refuse_names(&mut value, &conflict, &now),
            None if names::are_accepted(&value) => return stored,
            None => {
                object::set_field(&mut value, "status", None);
                crd_definition::accept_definition(&mut value, &now);
            }
        }
        // A write that comes between looks again itself.
        let name = object::object_name(&stored.value).to_owned();
        let _ = self.store.replace(DEFINITIONS, stored.version, value);
        self.store.get(DEFINITIONS, "", &name).unwrap_or(stored)
    }

    /// Names have become free: who waits for them gets them.
    fn settle_names(&self, group: &str) {
        for other in self.store.list(DEFINITIONS, None).0 {
            let waits = text_at(&other.value, "/spec/group") == Some(group);
            if waits && !names::are_accepted(&other.value) {
                self.after_definition(object::object_name(&other.value));
            }
        }
    }

    /// Removes a terminating definition once the last of its objects is gone.
    fn finish_definition(&self, table: &str) {
        let Some(stored) = self.store.get(DEFINITIONS, "", table) else { return };
        let Some(kind) = self.kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return;
        };
        if !object::is_terminating(&stored.value) || !self.store.list(table, None).0.is_empty() {
            return;
        }
        let mut value = stored.value.clone();
        let rest: Vec<&str> =
            object::list_finalizers(&stored.value).filter(|f| *f != CLEANUP).collect();
        object::set_meta(&mut value, "finalizers", (!rest.is_empty()).then(|| rest.into()));
        if delete::is_deletion_complete(&kind, &value) {
            if self.store.remove(DEFINITIONS, stored.version, value).is_ok() {
                self.after_definition(table);
            }
        } else if value != stored.value {
            // Somebody else's finalizer; a write that comes between tries again.
            let _ = self.store.replace(DEFINITIONS, stored.version, value);
        }
    }

    /// Adds the namespaces, roles and the service that upstream's server makes for itself.
    pub(in crate::apiserver) fn seed(&self, address: std::net::SocketAddr) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            self.put(
                "namespaces",
                &json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                    "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
                }),
            );
        }
        let read = ["get"];
        let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
        let discovery = [
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ];
        let reviews = json!([
            {"apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
             "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
            {"apiGroups": ["authentication.k8s.io"], "verbs": ["create"],
             "resources": ["selfsubjectreviews"]},
        ]);
        let everything = json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]);
        let all = ["system:authenticated", "system:unauthenticated"];
        self.role("cluster-admin", &everything, &["system:masters"]);
        self.role("system:basic-user", &reviews, &all[..1]);
        let rules = json!([{"nonResourceURLs": discovery, "verbs": read}]);
        self.role("system:discovery", &rules, &all[..1]);
        let rules = json!([{"nonResourceURLs": public, "verbs": read}]);
        self.role("system:public-info-viewer", &rules, &all);
        self.put("services", &json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                "sessionAffinity": "None", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP",
                    "targetPort": address.port()}]},
            "status": {"loadBalancer": {}},
        }));
        self.put(
            "endpoints",
            &json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"name": "kubernetes", "namespace": "default"},
                "subsets": [{"addresses": [{"ip": address.ip().to_string()}],
                    "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}]}],
            }),
        );
    }

    fn role(&self, name: &str, rules: &Value, groups: &[&str]) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let meta =
            json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}});
        self.put(
            &format!("clusterroles.{GROUP}"),
            &json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
                "metadata": meta, "rules": rules,
            }),
        );
        let subjects: Vec<Value> = groups
            .iter()
            .map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group}))
            .collect();
        self.put(
            &format!("clusterrolebindings.{GROUP}"),
            &json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding",
                "metadata": meta, "subjects": subjects,
                "roleRef": {"kind": "ClusterRole", "apiGroup": GROUP, "name": name},
            }),
        );
    }

    fn put(&self, table: &str, value: &Value) {
        let mut value = value.clone();
        object::set_meta(&mut value, "uid", Some(uuid::Uuid::new_v4().to_string().into()));
        object::set_meta(&mut value, "creationTimestamp", Some(object::now_text().into()));
        let allowed =
            |_: &crate::apiserver::store::StoreView<'_>| Ok::<(), std::convert::Infallible>(());
        // The store is empty at this point, so nothing can be in the way.
        let _ = self.store.create(table, value, allowed);
    }
}
