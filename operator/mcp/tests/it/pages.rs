//! A request that a person has to open a page for (error -32042).

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use codebutler_mcp::session::{QuestionAnswer, QuestionHandler, ServerQuestion};
use codebutler_mcp::{McpError, SessionSetup, ToolCall};
use serde_json::{Value, json};

use super::scripted::{Next, open, start};

struct Asked(Mutex<Vec<ServerQuestion>>, QuestionAnswer);

#[async_trait]
impl QuestionHandler for Asked {
    async fn ask(&self, question: ServerQuestion) -> QuestionAnswer {
        self.0.lock().unwrap().push(question);
        self.1.clone()
    }
}

async fn refusal(data: Value, answer: QuestionAnswer) -> (String, Vec<ServerQuestion>) {
    let link = start(move |message, output| {
        if message["method"] == "tools/call" {
            let error = json!({"code": -32042, "message": "Sign in first", "data": data});
            output.line(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
        Next::GoOn
    });
    let asked = Arc::new(Asked(Mutex::default(), answer));
    let questions = Some(Arc::clone(&asked) as Arc<dyn QuestionHandler>);
    let (session, _events) =
        open(link, SessionSetup { questions, ..SessionSetup::default() }).await;
    let call = ToolCall { name: "pay".into(), ..ToolCall::default() };
    let error = session.call_tool(call).await.unwrap_err();
    assert!(matches!(error, McpError::Refused { code: -32042, .. }), "{error}");
    let asked = asked.0.lock().unwrap().clone();
    (error.to_string(), asked)
}

#[tokio::test]
async fn a_page_that_a_call_needs_is_shown_and_the_call_can_be_made_again() {
    let page =
        |url: &str| json!({"mode": "url", "message": "Pay", "url": url, "elicitationId": "e1"});
    let data = json!({"elicitations": [
        page("javascript:alert(1)"), {"mode": "form"}, 7, page("https://pay.example/1"),
        {"mode": "url", "url": format!("https://long.example/{}", "x".repeat(10_000))},
    ]});
    let seen = QuestionAnswer::Accepted(Value::Null);
    let (error, asked) = refusal(data.clone(), seen.clone()).await;
    assert!(error.contains("Sign in first") && error.contains("call again once"), "{error}");
    let link = ServerQuestion::Link {
        message: "Pay".into(),
        url: "https://pay.example/1".parse().unwrap(),
    };
    assert_eq!(asked, [link]);
    let (error, _) = refusal(data, QuestionAnswer::Declined).await;
    assert!(error.contains("and none did"), "{error}");
    // A server that asks for many is stopped.
    let many: Vec<Value> = (0..100).map(|n| page(&format!("https://pay.example/{n}"))).collect();
    let (_, asked) = refusal(json!({"elicitations": many}), seen.clone()).await;
    assert_eq!(asked.len(), 3);
    for none in [json!(null), json!({"elicitations": {}}), json!({"elicitations": [{}]})] {
        let (error, asked) = refusal(none, seen.clone()).await;
        assert!(error.contains("Sign in first (-32042)") && asked.is_empty(), "{error}");
    }
}
