//! The demo's chat page, used as its people use it; and what happens when the demo is ended and
//! started again.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::SemaphorePermit;

use crate::support::{PATIENCE, permit};

/// A demo without a scenario, running.
pub(crate) struct Chat {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Output up to the moment when it was ready.
    pub said: String,
    http: reqwest::Client,
    origin: String,
    token: String,
    _permit: SemaphorePermit<'static>,
}

/// `cargo demo -- ARGUMENTS`, with no key of this machine's user in sight.
pub(crate) fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let models = ["CODEBUTLER_MODEL_URL", "CODEBUTLER_MODEL_KEY", "CODEBUTLER_MODEL"];
    let keys = ["OPENROUTER", "OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"];
    for name in keys.map(|who| format!("{who}_API_KEY")) {
        command.env_remove(name);
    }
    let servers = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "LLAMA_ARG_PORT"];
    for name in models.into_iter().chain(servers) {
        command.env_remove(name);
    }
    command
}

/// The same on the embedded API server, whatever else the tests run on: only that can be kept.
fn kept(state: &Path) -> Command {
    let mut command = demo(&["--state", state.to_str().unwrap()]);
    for name in ["KUBECONFIG", "KUBEBUILDER_ASSETS"] {
        command.env_remove(name);
    }
    command
}

impl Chat {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        Self::run(demo(arguments)).await
    }

    pub(crate) async fn run(mut command: Command) -> Self {
        let permit = permit().await;
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("Ctrl-C")) {
            read_line(&mut lines, &mut said).await;
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let page = after(&said, "chat page:");
        let (origin, token) = page.split_once("/?token=").unwrap();
        let (origin, token) = (origin.to_owned(), token.to_owned());
        Self { child, lines, http: reqwest::Client::new(), origin, token, said, _permit: permit }
    }

    /// Returns the text that it printed behind a label.
    pub(crate) fn line(&self, label: &str) -> String {
        after(&self.said, label)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}?token={}", self.origin, self.token)
    }

    pub(crate) async fn state(&self) -> Value {
        self.http.get(self.url("/page/state")).send().await.unwrap().json().await.unwrap()
    }

    /// Writes as a user; returns the message's ts.
    pub(crate) async fn says(&self, user: &str, thread: Option<&str>, text: &str) -> String {
        let state = self.state().await;
        let users = state["users"].as_array().unwrap();
        let user = &users.iter().find(|one| one["name"] == user).unwrap()["id"];
        let channel = &state["channels"][0]["id"];
        let post = json!({"user": user, "channel": channel, "thread": thread, "text": text});
        let call = self.http.post(self.url("/page/post")).json(&post);
        let posted: Value = call.send().await.unwrap().json().await.unwrap();
        posted["ts"].as_str().unwrap_or_else(|| panic!("{posted}")).to_owned()
    }

    /// Waits for a message of somebody with something in it; returns its text.
    pub(crate) async fn hears(&self, thread: &str, from: &str, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.state().await;
            let messages = state["messages"].as_array().unwrap();
            let here = messages.iter().filter(|m| m["thread_ts"] == thread);
            let mut fitting = here.filter(|m| m["sender"]["name"] == from);
            let text = |m: &Value| m["shown"].as_str().unwrap_or_default().to_owned();
            if let Some(found) = fitting.find(|m| text(m).contains(part)) {
                return text(found);
            }
            assert!(Instant::now() < deadline, "no `{part}` from {from} in {messages:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ctrl-C; returns the exit code and what was said after it.
    pub(crate) async fn interrupt(self) -> (Option<i32>, String) {
        interrupt(self.child, self.lines).await
    }
}

/// A scenario that was played, with all that it left running.
pub(crate) struct KeptScenario {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: String,
    _permit: SemaphorePermit<'static>,
}

impl KeptScenario {
    /// Plays a file on the embedded cluster, whatever else the tests run on: its folder is known.
    pub(crate) async fn play(file: &str) -> Self {
        let permit = permit().await;
        let mut command = demo(&["--scenario", file, "--keep"]);
        for name in ["KUBECONFIG", "KUBEBUILDER_ASSETS"] {
            command.env_remove(name);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("left running")) {
            read_line(&mut lines, &mut said).await;
        }
        // What failed stands last: of a long text only the end may be kept.
        let failed: Vec<&str> = said.lines().filter(|line| line.starts_with('✗')).collect();
        assert!(failed.is_empty(), "{said}\n{}", failed.join("\n"));
        Self { child, lines, said, _permit: permit }
    }

    /// Address of the pages on its threads.
    pub(crate) fn pages(&self) -> String {
        after(&self.said, "at work:")
    }

    /// Folder of all that it has written.
    pub(crate) fn folder(&self) -> PathBuf {
        let kubeconfig = PathBuf::from(after(&self.said, "KUBECONFIG="));
        kubeconfig.ancestors().nth(3).unwrap().to_owned()
    }

    /// Ctrl-C; it has to have gone as it was expected to.
    pub(crate) async fn end(self) {
        let (code, rest) = interrupt(self.child, self.lines).await;
        assert_eq!(code, Some(0), "{}{rest}", self.said);
    }
}

/// Waits for a line, and adds it to what was said.
async fn read_line(lines: &mut Lines<BufReader<ChildStdout>>, said: &mut String) {
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
    let line = line.unwrap_or_else(|_| panic!("no more than: {said}")).unwrap();
    said.push_str(&line.unwrap_or_else(|| panic!("ended after: {said}")));
    said.push('\n');
}

/// Ctrl-C; returns the exit code and what was said after it.
async fn interrupt(
    mut child: Child,
    mut lines: Lines<BufReader<ChildStdout>>,
) -> (Option<i32>, String) {
    let pid = nix::unistd::Pid::from_raw(child.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let mut rest = String::new();
    let ended = tokio::time::timeout(Duration::from_mins(1), async {
        while let Ok(Some(line)) = lines.next_line().await {
            rest.push_str(&line);
            rest.push('\n');
        }
        child.wait().await.unwrap()
    });
    (ended.await.expect("still running").code(), rest)
}

fn after(said: &str, label: &str) -> String {
    let found = said.lines().find_map(|line| line.split_once(label));
    found.unwrap_or_else(|| panic!("no {label} in {said}")).1.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_kept_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("kept");
    let first = Chat::run(kept(&state)).await;
    assert!(first.said.contains("keeps everything in"), "{}", first.said);
    let (page, kubeconfig) = (first.line("chat page:"), first.line("KUBECONFIG="));
    let offered = first.state().await["suggestions"].clone();
    assert_eq!(offered.as_array().unwrap().len(), 3, "{offered}");
    let question = offered[2]["text"].as_str().unwrap().to_owned();

    // A message that nobody wrote an answer for gets an honest answer, and no failure.
    let strange = first.says("ben", None, "Please rewrite it in COBOL.").await;
    let honest = first.hears(&strange, "PM", "I am a scripted model").await;
    assert!(honest.contains(&question) && honest.contains("OPENROUTER_API_KEY"), "{honest}");
    let root = first.says("ana", None, &question).await;
    first.hears(&root, "PM", "src/report.rs:29").await;

    // Meanwhile nobody else gets in.
    let second = kept(&state).output().await.unwrap();
    assert_eq!(second.status.code(), Some(2));
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(told.contains("is in use by another demo (process "), "{told}");

    let (code, rest) = first.interrupt().await;
    assert_eq!(code, Some(0), "{rest}");
    assert!(!rest.contains("script does not know"), "{rest}");
    assert!(rest.contains("start with the same --state to go on"), "{rest}");

    let again = Chat::run(kept(&state)).await;
    assert!(again.said.contains("went on from"), "{}", again.said);
    assert_eq!((again.line("chat page:"), again.line("KUBECONFIG=")), (page, kubeconfig));
    again.hears(&root, "PM", "src/report.rs:29").await;
    // The transcript is still there: the script knows that it has been played.
    again.says("ana", Some(&root), "And seconds?").await;
    again.hears(&root, "PM", "That is all that my script has for me in this thread").await;
    assert_eq!(again.interrupt().await.0, Some(0));
    assert!(Path::new(&state).join("codebutler-demo.json").exists());
}
