//! Conversations of the whole product with the real server of llama.cpp. However badly its model talks, each
//! ends in words that a person can read, and can do something with.
//!
//! `CODEBUTLER_LLAMA_SOAK` is how many; `CODEBUTLER_LLAMA_MODEL=gemma` has a model of 270 million parameters instead
//! of one of random numbers, which needs 240 MB more and some minutes for each.

use std::io::Write as _;
use std::time::{Duration, Instant};

use codebutler_crds::repo::ModelNote;
use codebutler_crds::thread::RoleState;
use codebutler_testbed::llama::{LlamaError, LlamaModel, LlamaOptions, LlamaServer};
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::pytools::PyToolsError;
use codebutler_testbed::stack::outside::ModelProvider;

use crate::support::{Setup, Team};

/// Number of conversations that a usual run of the tests has time for.
const USUAL: usize = 2;
/// Conversations at the same time: the server answers one after another.
const AT_ONCE: usize = 4;
/// Timeout of one conversation.
const PATIENCE: Duration = Duration::from_mins(15);
/// Words of which one is in every sentence that says what a person can do.
const REMEDIES: [&str; 7] = [
    "Write again",
    "model NAME",
    "choose ",
    "check that",
    "give me",
    "spec.model",
    "chat template",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_conversation_ends_in_words_that_people_can_use() {
    let gemma = std::env::var("CODEBUTLER_LLAMA_MODEL").is_ok_and(|model| model == "gemma");
    let model = if gemma { LlamaModel::Gemma } else { LlamaModel::Random };
    // To the one each byte is a token.
    let window = if gemma { 32_768 } else { 65_536 };
    let server = LlamaServer::start(LlamaOptions { model, window, ..LlamaOptions::default() });
    let server = match server.await {
        Ok(server) => server,
        Err(LlamaError::Python(PyToolsError::NoPython)) => {
            let _ = writeln!(std::io::stderr(), "skipped: no python3 for llama.cpp");
            return;
        }
        Err(error) => panic!("{:#}", anyhow::Error::from(error)),
    };
    let count = std::env::var("CODEBUTLER_LLAMA_SOAK").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(USUAL);
    let name = if gemma { "gemma" } else { "random" };
    let provider = ModelProvider {
        url: server.url().to_owned(),
        key: "none".to_owned(),
        model: Some(name.to_owned()),
        api: None,
    };
    let setup = Setup::new(ModelScript::of("pm", vec![])).real(provider).repo(move |repo| {
        let note = ModelNote { max_tokens: Some(256), ..ModelNote::default() };
        repo.model.models.insert(name.to_owned(), note);
    });
    let team = setup.idle(1).start().await;
    let all: Vec<usize> = (0..count).collect();
    for some in all.chunks(AT_ONCE) {
        let roots: Vec<String> = some
            .iter()
            .map(|n| team.says("ana", None, &format!("{n}: What does src/price.txt say?")))
            .collect();
        for root in &roots {
            let last = last_words(&team, root).await;
            let _ = writeln!(std::io::stderr(), "{last}");
            let readable = !last.chars().any(|c| c == '\u{fffd}' || (c.is_control() && c != '\n'));
            assert!(readable && !last.trim().is_empty(), "{last:?}");
            // A few bytes of chance can be text; an answer of many can't.
            let by_chance = last.chars().count() < 12;
            let helps = REMEDIES.iter().any(|words| last.contains(words));
            assert!(helps || gemma || by_chance, "it does not say what a person can do: {last}");
        }
    }
    team.stop().await;
}

/// Returns the last words of the pm, once its run has ended.
async fn last_words(team: &Team, root: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let thread = team.thread(root).await;
        let status = thread.status.unwrap_or_default();
        let state = status.roles.get("pm").and_then(|role| role.state);
        let ended = state.is_some_and(|state| state != RoleState::Running) && !status.wants("pm");
        let messages = team.messages(root);
        let last = messages.iter().rfind(|message| message.sender.name != "ana");
        if let Some(last) = last.filter(|_| ended) {
            return last.shown.clone();
        }
        let shown: Vec<&String> = messages.iter().map(|message| &message.shown).collect();
        assert!(Instant::now() < deadline, "it does not end: {status:?} {shown:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
