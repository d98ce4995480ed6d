//! A message, followed from the socket that brings it to the post that answers it, by what a collector gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::serving::RunningServer;
use codebutler_testbed::stack::part::StackPart;
use kube::ResourceExt as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;
use serde_json::json;

use crate::support::Setup;

/// Export requests that a collector has been sent.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(Bytes, ExportTraceServiceRequest)>>>);

impl Spans {
    /// Collects spans over HTTP, in protobuf: nothing else is taken.
    async fn collect(&self) -> RunningServer {
        let taken = self.clone();
        let take = move |headers: HeaderMap, body: Bytes| async move {
            let is_protobuf =
                headers.get("content-type").is_some_and(|t| t == "application/x-protobuf");
            match ExportTraceServiceRequest::decode(body.clone()) {
                Ok(request) if is_protobuf => {
                    taken.0.lock().unwrap().push((body, request));
                    StatusCode::OK
                }
                _ => StatusCode::BAD_REQUEST,
            }
        };
        RunningServer::start(Router::new().route("/v1/traces", post(take))).await.unwrap()
    }

    /// The names of a Thread's spans, by trace, each as which process it was seen in.
    fn of(&self, thread: &str) -> BTreeMap<Vec<u8>, BTreeSet<String>> {
        let mut found = BTreeMap::<_, BTreeSet<_>>::new();
        let taken = self.0.lock().unwrap();
        for spans in taken.iter().flat_map(|(_, request)| &request.resource_spans) {
            let service = spans.resource.as_ref().unwrap().attributes.iter();
            let service =
                service.filter(|a| a.key == "service.name").find_map(|a| text(a.value.as_ref()));
            for span in spans.scope_spans.iter().flat_map(|scope| &scope.spans) {
                let its = span.attributes.iter().find(|a| a.key == "thread");
                if its.and_then(|a| text(a.value.as_ref())) == Some(thread) {
                    let name = format!("{}: {}", service.unwrap_or_default(), span.name);
                    found.entry(span.trace_id.clone()).or_default().insert(name);
                }
            }
        }
        found
    }

    /// Returns the span of this name.
    fn named(&self, name: &str) -> opentelemetry_proto::tonic::trace::v1::Span {
        let taken = self.0.lock().unwrap();
        let all = taken.iter().flat_map(|(_, request)| &request.resource_spans);
        let mut all = all.flat_map(|spans| &spans.scope_spans).flat_map(|scope| &scope.spans);
        all.find(|span| span.name == name).unwrap().clone()
    }

    fn contains(&self, words: &str) -> bool {
        let taken = self.0.lock().unwrap();
        taken
            .iter()
            .any(|(bytes, _)| bytes.windows(words.len()).any(|seen| seen == words.as_bytes()))
    }
}

fn text(value: Option<&opentelemetry_proto::tonic::common::v1::AnyValue>) -> Option<&str> {
    match value?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_followed_from_socket_to_post() {
    let spans = Spans::default();
    let collector = spans.collect().await;
    let look = ScriptStep::tool("Bash", json!({"command": "echo hidden; exit 3"}));
    let script = ModelScript::of("coder", vec![look, ScriptStep::say("Both kinds are counted.")]);
    let mut team = Setup::new(script).start().await;
    if !matches!(team.stack.gateway, StackPart::Process(_)) {
        // A Deployment is told by the chart's values.
        team.stop().await;
        return;
    }
    for part in [&mut team.stack.controller, &mut team.stack.gateway] {
        let StackPart::Process(process) = part else { unreachable!() };
        process.set_env("CODEBUTLER_TRACES", &collector.url());
        process.stop().await.unwrap();
        process.restart().unwrap();
    }
    team.stack.slack.wait_connected(1, Duration::from_mins(1)).await.unwrap();
    let root = team.says("ana", None, "@codebutler.coder which kinds are counted?");
    team.message(&root, "Both kinds are counted.").await;
    let name = team.thread(&root).await.name_any();
    let thread = format!("{}/{name}", team.stack.place.team);
    team.until("all of the way to be one trace", || async {
        let seen = spans.of(&thread);
        let way = [
            "codebutler-gateway: envelope",
            "codebutler-controller: reconcile",
            "codebutler-gateway: call",
            "codebutler-gateway: post",
            "codebutler-gateway: chat",
            "codebutler-gateway: invoke_agent coder",
            "codebutler-gateway: execute_tool Bash",
        ];
        let seen = (seen.len() == 1).then(|| seen.into_values().next())??;
        way.iter().all(|step| seen.contains(*step)).then_some(())
    })
    .await;
    let (run, tool) = (spans.named("invoke_agent coder"), spans.named("execute_tool Bash"));
    assert_eq!(tool.parent_span_id, run.span_id);
    let of = |name: &str| {
        let found = tool.attributes.iter().find(|a| a.key == name);
        found.and_then(|a| text(a.value.as_ref())).map(str::to_owned)
    };
    let told = ["gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.agent.name", "error.type"];
    let expected = ["execute_tool", "Bash", "coder", "exit_code"].map(|word| Some(word.to_owned()));
    assert_eq!(told.map(of), expected);
    for words in ["which kinds", "Both kinds", "hidden", "codebutler.span", "xoxb-", "xapp-"] {
        assert!(!spans.contains(words), "{words}");
    }
    team.stop().await;
}
