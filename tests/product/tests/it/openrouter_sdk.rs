//! OpenRouter's API as its own TypeScript package declares it: against the kept names and lists that
//! CodeButler's readers are tested with, and against what the model server answers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer, ScriptStep};
use codebutler_testbed::nodetools::{NodeToolsError, ensure_modules};
use serde_json::{Value, json};

const PACKAGE: &str = "@openrouter/sdk@1.3.19";

/// Runs the client and returns its output. Without node on the machine it says so, and there is nothing.
async fn run(arguments: &[&str]) -> Option<String> {
    let modules = tokio::task::spawn_blocking(|| ensure_modules(&[PACKAGE])).await.unwrap();
    let modules = match modules {
        Ok(modules) => modules,
        Err(NodeToolsError::NoNode) => {
            let _ = writeln!(std::io::stderr(), "skipped: no node for {PACKAGE}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let script = Path::new(codebutler_testbed::FOLDER).join("clients/openrouter_sdk.mjs");
    let mut command = tokio::process::Command::new("node");
    command.arg(script).args(arguments).env("OPENROUTER_SDK", modules.join("@openrouter/sdk"));
    let ran = tokio::time::timeout(Duration::from_mins(2), command.kill_on_drop(true).output());
    let output = ran.await.expect("the client did not end").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}:\n{said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn corpus(name: &str) -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("corpus").join(name)
}

#[tokio::test]
async fn the_kept_names_and_list_are_what_the_provider_declares() {
    let Some(declared) = run(&["declared"]).await else { return };
    let kept = std::fs::read_to_string(corpus("openrouter-types.json")).unwrap();
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(
        read(&kept),
        read(&declared),
        "clients/openrouter_sdk.mjs declared > corpus/openrouter-types.json"
    );
    let list = corpus("openrouter-models.json");
    run(&["fits", "ModelsListResponse", list.to_str().unwrap()]).await;
}

#[tokio::test]
async fn the_model_server_answers_as_the_provider_declares() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let steps =
        vec![ScriptStep::say("Good morning.").metered(), ScriptStep::say("More.").metered()];
    let server = ModelServer::start(ModelScript::of("coder", steps), ModelOptions::default());
    let server = server.await.unwrap();
    let (url, key) = (server.url(), server.api_key());
    let Some(said) = run(&["ask", &url, key, "scripted/coder"]).await else { return };
    assert_eq!(said.trim(), "Good morning.");
    let dir = tempfile::tempdir().unwrap();
    let http = reqwest::Client::new();
    let ask = json!({"model": "scripted/coder", "messages": [{"role": "user", "content": "x"}]});
    let nothing = json!({"model": "none/such", "messages": [{"role": "user", "content": "x"}]});
    let list = http.get(format!("{url}/models"));
    let chat = |body: &Value| http.post(format!("{url}/chat/completions")).json(body);
    for (kind, request) in [
        ("ModelsListResponse", list),
        ("ChatResult", chat(&ask)),
        ("BadRequestResponseErrorData", chat(&nothing)),
    ] {
        let answer: Value = request.bearer_auth(key).send().await.unwrap().json().await.unwrap();
        let answer = if answer["error"].is_null() { answer } else { answer["error"].clone() };
        let file = dir.path().join(format!("{kind}.json"));
        std::fs::write(&file, answer.to_string()).unwrap();
        run(&["fits", kind, file.to_str().unwrap()]).await;
    }
}
