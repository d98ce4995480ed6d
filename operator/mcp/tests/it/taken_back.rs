//! Requests that a server takes back, as the official TypeScript server does with a question after a minute.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use codebutler_mcp::session::{QuestionAnswer, QuestionHandler, ServerQuestion};
use codebutler_mcp::{ContentBody, SessionSetup, ToolCall};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::scripted::{Next, open, start};

const PATIENCE: Duration = Duration::from_secs(10);

/// Says when it is asked, and when nobody waits for its answer any more.
struct NeverAnswers(mpsc::UnboundedSender<&'static str>);

struct Dropped<'a>(&'a NeverAnswers);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        let _ = self.0.0.send("taken back");
    }
}

#[async_trait]
impl QuestionHandler for NeverAnswers {
    async fn ask(&self, _question: ServerQuestion) -> QuestionAnswer {
        let _dropped = Dropped(self);
        let _ = self.0.send("asked");
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_question_that_its_server_takes_back_ends_and_leaves_room_for_the_next_one() {
    let (seen, mut lines) = mpsc::unbounded_channel();
    let link = start(move |message, output| {
        let _ = seen.send((message.clone(), output.clone()));
        Next::GoOn
    });
    let (told, mut said) = mpsc::unbounded_channel();
    let mut setup = SessionSetup { client_name: "tests".into(), ..SessionSetup::default() };
    setup.limits.server_requests = 1;
    setup.questions = Some(Arc::new(NeverAnswers(told)));
    let (session, _events) = open(link, setup).await;
    let call = ToolCall { name: "x".into(), ..ToolCall::default() };
    let calling = tokio::spawn(async move { session.call_tool(call).await });
    let (called, output) = loop {
        let (message, output) = timeout(PATIENCE, lines.recv()).await.unwrap().unwrap();
        if message["method"] == "tools/call" {
            break (message, output);
        }
    };
    // The id comes back as a text where it was a number, and the other way round.
    for (id, same) in [(json!(7), json!("7")), (json!("8"), json!(8)), (json!("q"), json!("q"))] {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        let params = json!({"message": "?", "requestedSchema": schema});
        let method = "elicitation/create";
        output.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        assert_eq!(timeout(PATIENCE, said.recv()).await.unwrap(), Some("asked"), "{id}");
        output.notify("notifications/cancelled", json!({"requestId": "another"}));
        output.notify("notifications/cancelled", json!({"requestId": same, "reason": "timeout"}));
        assert_eq!(timeout(PATIENCE, said.recv()).await.unwrap(), Some("taken back"), "{id}");
    }
    output.result(&called, json!({"content": "done"}));
    let result = timeout(PATIENCE, calling).await.unwrap().unwrap().unwrap();
    assert_eq!(result.items[0].body, ContentBody::Text("done".into()));
    let is_answer = |message: &Value| message.get("method").is_none();
    while let Ok((message, _)) = lines.try_recv() {
        assert!(!is_answer(&message), "nobody waits for it: {message}");
    }
}
