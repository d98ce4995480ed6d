//! Servers that want much memory, each a test of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codebutler_mcp::{SessionSetup, ToolCall};
use serde_json::{Value, json};

use super::scripted::{Next, open, start};

fn setup() -> SessionSetup {
    SessionSetup { client_name: "tests".into(), ..SessionSetup::default() }
}

#[tokio::test]
async fn an_answer_of_millions_of_values_fails_its_call_and_one_of_a_long_text_does_not() {
    let link = start(|message, output| {
        let id = &message["id"];
        let result = match message["params"]["name"].as_str() {
            Some("rows") => format!("[{}1]", r#"{"a":1},"#.repeat(1_000_000)),
            Some("batch") => {
                output.raw(format!("[{}1]\n", r#"{"a":1},"#.repeat(1_000_000)));
                json!({"content": "after"}).to_string()
            }
            _ => json!({"content": [{"type": "text", "text": "{[,:".repeat(1 << 20)}]}).to_string(),
        };
        if message["method"] == "tools/call" {
            output.raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"));
        }
        Next::GoOn
    });
    let (session, _events) = open(link, setup()).await;
    let call =
        |name: &str| session.call_tool(ToolCall { name: name.into(), ..ToolCall::default() });
    let error = call("rows").await.unwrap_err().to_string();
    assert!(error.contains("more than 200000 values"), "{error}");
    assert_eq!(call("batch").await.unwrap().items.len(), 1, "the session goes on");
    assert_eq!(call("text").await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_list_has_a_bound_on_all_of_its_bytes() {
    let link = start(|message, output| {
        let page: usize =
            message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let text = "x".repeat(50_000);
        let tools: Vec<Value> = (0..20)
            .map(|n| json!({"name": format!("t{page}-{n}"), "inputSchema": {"default": text}}))
            .collect();
        let resources: Vec<Value> =
            (0..20).map(|n| json!({"uri": format!("r://{page}/{n}"), "blob": text})).collect();
        let next = (page + 1).to_string();
        output.result(message, json!({"tools": tools, "resources": resources, "nextCursor": next}));
        Next::GoOn
    });
    let mut setup = setup();
    setup.limits.list_bytes = 3_000_000;
    let (session, _events) = open(link, setup).await;
    let listed = session.list_tools().await.unwrap();
    assert!(listed.is_cut && (50..60).contains(&listed.items.len()), "{}", listed.items.len());
}

#[tokio::test]
async fn the_cursors_of_a_list_count_like_its_entries() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let link = start(move |message, output| {
        if message["method"] != "tools/list" {
            return Next::GoOn;
        }
        let page = count.fetch_add(1, Ordering::SeqCst);
        let next = format!("{page}{}", "c".repeat(1_000_000));
        let tools = json!([{"name": format!("t{page}")}]);
        output.result(message, json!({"tools": tools, "nextCursor": next}));
        Next::GoOn
    });
    let mut setup = setup();
    setup.limits.list_bytes = 3_000_000;
    let (session, _events) = open(link, setup).await;
    let listed = session.list_tools().await.unwrap();
    assert_eq!((listed.items.len(), listed.is_cut, asked.load(Ordering::SeqCst)), (3, true, 3));
}
