//! Custom resources: definitions, schemas, rules. Each behaviour makes a kind of its own.

pub(super) mod definitions;
pub(super) mod rules;
pub(super) mod served;
pub(super) mod values;

use serde_json::{Value, json};

use super::lab::Lab;

struct Kind {
    lab: Lab,
    group: String,
}

impl Kind {
    fn definition(lab: &Lab, schema: Value, more: Value) -> Value {
        let group = format!("{}.example.org", lab.namespace);
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            version[key] = value.clone();
        }
        json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "versions": [version],
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            },
        })
    }

    async fn new(lab: Lab, schema: Value, more: Value) -> Self {
        let definition = Self::definition(&lab, schema, more);
        lab.post("customresourcedefinitions", definition).await.ok(201);
        let kind = Self { group: format!("{}.example.org", lab.namespace), lab };
        let path = kind.path();
        // Established and served are not the same moment.
        kind.lab
            .until("kind", || async { (kind.lab.get(&path).await.code == 200).then_some(()) })
            .await;
        kind
    }

    fn path(&self) -> String {
        format!("/apis/{}/v1/namespaces/{}/widgets", self.group, self.lab.namespace)
    }

    fn one(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    fn widget(&self, spec: Value) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Widget",
            "metadata": {"name": "w"}, "spec": spec,
        })
    }

    async fn create(&self, spec: Value) -> super::lab::Reply {
        self.lab.post(&self.path(), self.widget(spec)).await
    }

    async fn gone(self) {
        let name = format!("customresourcedefinitions/widgets.{}", self.group);
        self.lab.delete(&name, Value::Null).await.ok(200);
    }
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}
