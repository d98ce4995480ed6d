//! Parts of results that are for others than a model that reads: for people, and for those that hear.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::AgentRole;
use codebutler_testbed::mcp::ToolAnswer;
use codebutler_testbed::models::{ScriptStep, small_png};
use serde_json::{Value, json};

use super::mcp::{Office, SECRET, names, reading};
use super::{World, eventually};

fn content(items: &Value) -> ToolAnswer {
    ToolAnswer::Result(json!({ "content": items }))
}

impl World {
    fn posts(&self) -> Vec<codebutler_testbed::slack::MessageView> {
        self.slack.messages(&self.channel, Some(&self.root))
    }
}

#[tokio::test]
async fn what_is_for_people_alone_is_shown_in_the_thread_and_the_model_is_told_so() {
    let office = Office::open(json!({})).await;
    let people = json!({"audience": ["user"]});
    let long = "very long ".repeat(2_000);
    office.server.set_tools([
        (
            reading("chart"),
            content(&json!([
                {"type": "text", "text": "Sales rose."},
                {"type": "text", "annotations": people,
                 "text": format!("Dear people: {SECRET} @codebutler.lead merge it <!channel>\n```\n[x](https://e.example)")},
                {"type": "image", "mimeType": "image/png", "annotations": people,
                 "data": STANDARD.encode(small_png("sales"))},
            ])),
        ),
        (reading("essay"), content(&json!([{"type": "text", "text": long, "annotations": people}]))),
    ]);
    office.tools(|tools| names(tools).len() == 2).await;
    for _ in 0..2 {
        let result = office.call_until(200, "p1", "chart", json!({})).await;
        assert_eq!(result["text"], "Sales rose.");
        assert!(result["pictures"].is_null(), "{result}");
        let note = "a part of this result is for people alone: it was shown to them in the thread";
        assert_eq!(result["notes"], json!([note]));
    }
    let posts = office.world.posts();
    let shown: Vec<_> = posts.iter().filter(|one| one.shown.contains("Dear people")).collect();
    assert_eq!(shown.len(), 1, "{posts:#?}");
    let text = &shown[0].text;
    assert!(text.contains("The server `tracker` means this for the people here"), "{text}");
    assert!(text.contains("[redacted:") && !text.contains("0123456789"), "{text}");
    for part in ["@codebutler", "<!channel", "<https://e.example"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    let files = posts.iter().filter(|one| !one.files.is_empty()).count();
    assert_eq!(files, 1, "{posts:#?}");

    office.call_until(200, "p2", "essay", json!({})).await;
    let posts = office.world.posts();
    let essay: usize =
        posts.iter().filter(|one| one.shown.contains("very long")).map(|one| one.shown.len()).sum();
    assert!((1_000..6_000).contains(&essay), "{essay}");
}

#[tokio::test]
async fn a_server_may_ask_the_roles_model_while_a_resource_is_read() {
    let fields = json!({
        "sampling": {"maxTokens": 50, "maxCalls": 1},
        "risk": [{"tools": ["resources/read"], "risk": "Read"}],
    });
    let before = ScriptStep::say("I count.");
    let answers = vec![before, ScriptStep::say("Three bugs.").costing(10, 5, "0.25")];
    let office = Office::open_with(fields, answers).await;
    let said =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    // The model's own words come last, and one message says nothing: some providers refuse either.
    let messages = [said("user", "Sum up"), said("user", ""), said("assistant", "I count.")];
    let request = json!({"messages": messages, "maxTokens": 20});
    office.server.set_asking_resource("tracker://report", request);
    office.server.set_tool(reading("search"), ToolAnswer::Text("x".into()));
    office.tools(|tools| names(tools).len() == 1).await;
    let read = json!({"server": "tracker", "uri": "tracker://report"});
    let (status, result) = office.world.post("coder", "/v1/mcp/reads", &read).await;
    assert_eq!(status, 200, "{result}");
    assert!(result["text"].as_str().unwrap().contains("Three bugs."), "{result}");
    assert_eq!(office.world.models.failures(), [""; 0]);
}

#[tokio::test]
async fn a_sound_is_written_down_for_a_model_that_does_not_hear() {
    let office = Office::open(json!({})).await;
    let sound = STANDARD.encode(b"ID3 a tune");
    let audio = json!([{"type": "audio", "mimeType": "audio/mpeg", "data": sound}]);
    office.server.set_tools([(reading("listen"), content(&audio))]);
    office.tools(|tools| names(tools).len() == 1).await;
    let result = office.call_until(200, "a1", "listen", json!({})).await;
    let text = result["text"].as_str().unwrap();
    assert!(text.contains("this model can't take it"), "{result}");

    let model = json!({"spec": {"model": {"audio": "scripted/ear"}}});
    let cluster = &office.world.cluster;
    cluster.patch::<AgentRole>(cluster.system(), "coder", &model).await;
    let heard = std::cell::RefCell::new(String::new());
    eventually("the sound is written down", || async {
        let key = format!("{:x}", rand::random::<u32>());
        let (_, result) = office.call(&key, "listen", json!({})).await;
        *heard.borrow_mut() = result["text"].to_string();
        heard.borrow().contains("written down]")
    })
    .await;
}
