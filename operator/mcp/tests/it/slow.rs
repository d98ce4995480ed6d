//! Servers that take their time.

use std::time::Duration;

use codebutler_mcp::{ContentBody, SessionSetup};
use serde_json::{Map, json};

use super::scripted::{Next, greeting, open, start_raw};

#[tokio::test]
async fn a_list_a_resource_and_a_prompt_may_take_as_long_as_a_call() {
    let link = start_raw(|message, output| {
        let (message, output) = (message.clone(), output.clone());
        let answer = match message["method"].as_str() {
            Some("initialize") => greeting("2025-06-18"),
            Some("tools/list") => json!({"tools": [{"name": "late"}]}),
            Some("resources/read") => json!({"contents": [{"uri": "u", "text": "late"}]}),
            _ => json!({"messages": [{"role": "user", "content": "late"}]}),
        };
        let is_first = message["method"] == "initialize";
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(if is_first { 0 } else { 600 })).await;
            output.result(&message, answer);
        });
        Next::GoOn
    });
    let mut setup = SessionSetup { client_name: "tests".into(), ..SessionSetup::default() };
    setup.limits.request = Duration::from_millis(100);
    let (session, _events) = open(link, setup).await;
    // A regression: a page of a list had ten seconds, whatever the Repo says of calls.
    assert_eq!(session.list_tools().await.unwrap().items.len(), 1);
    assert!(session.announces_changes("tools") && !session.announces_changes("prompts"));
    let late = ContentBody::Embedded { uri: "u".into(), text: "late".into() };
    assert_eq!(session.read_resource("u").await.unwrap().items[0].body, late);
    let prompt = session.get_prompt("p", &Map::new()).await.unwrap();
    assert_eq!(prompt[0].body, ContentBody::Text("late".into()));
}
