//! The Repo of tests, and tools of servers.

use codebutler_crds::Repo;
use codebutler_mcp::tools::{ServerTool, ToolHints};
use serde_json::{Map, Value, json};

/// The Repo team/shop, whose spec has these fields besides the required ones.
pub(crate) fn repo(fields: &Value) -> Repo {
    let mut repo = json!({
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {
            "git": {"url": "https://example.com/acme/shop", "credentials": {"name": "git"}},
            "slack": {"channel": "C0123ABCD", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}},
            "roles": ["pm"],
        },
    });
    let fields = fields.as_object().unwrap().clone();
    repo["spec"].as_object_mut().unwrap().extend(fields);
    serde_json::from_value(repo).unwrap()
}

/// A tool without arguments, of which its server says nothing else.
pub(crate) fn tool(name: &str, description: &str) -> ServerTool {
    ServerTool {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: Map::new(),
        output_schema: None,
        hints: ToolHints::default(),
        annotations: Value::Null,
    }
}
