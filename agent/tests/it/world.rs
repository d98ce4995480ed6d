//! A thread's volume, its remote, and its pods: what the cluster does in real life.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::gateway::{Gateway, HOST, Model, TOKEN};

const BINARY: &str = env!("CARGO_BIN_EXE_codebutler-agent");
/// Longer than anything here takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct World {
    pub dir: tempfile::TempDir,
    pub gateway: Gateway,
    pods: u32,
}

/// One pod: two processes that share a folder with a socket.
pub(crate) struct Pod {
    pub agent: Child,
    toolbox: Child,
}

impl World {
    pub(crate) async fn new(model: impl Fn(&[Value]) -> Value + Send + Sync + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let remote = dir.path().join("remote");
        make_remote(&remote, dir.path());
        fs::write(dir.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let model: Model = Box::new(model);
        let gateway = Gateway::start(&remote, &dir.path().join("ca.crt"), model).await;
        Self { dir, gateway, pods: 0 }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn tree(&self, path: &str) -> PathBuf {
        self.path("work/tree").join(path)
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.path("remote"), args)
    }

    pub(crate) fn toolbox_command(&self, socket: &Path) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(["toolbox", "--socket"])
            .arg(socket)
            .arg("--work-dir")
            .arg(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("work/home/pm"))
            .env("TMPDIR", self.path("tmp"))
            .env("KUBERNETES_SERVICE_HOST", "10.96.0.1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("CODEBUTLER_LOG", log_filter())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts a new pod of the role.
    pub(crate) fn pod(&mut self, die_at_step: Option<u64>) -> Pod {
        self.pod_with(die_at_step, |_| {})
    }

    /// Starts a pod like [`Self::pod`], with more said to the agent.
    pub(crate) fn pod_with(
        &mut self,
        die_at_step: Option<u64>,
        more: impl FnOnce(&mut Command),
    ) -> Pod {
        self.pods += 1;
        let socket = self.path(&format!("run{}/toolbox.sock", self.pods));
        let toolbox = self.toolbox_command(&socket).spawn().unwrap();
        let mut agent = Command::new(BINARY);
        agent
            .args(["run", "--gateway", &format!("https://{HOST}:8443")])
            .args(["--gateway-address", &self.gateway.address.to_string()])
            .args(["--relay", "127.0.0.1:0", "--role", "pm", "--thread", "shop-1-000001"])
            .arg("--socket")
            .arg(&socket)
            .arg("--token-file")
            .arg(self.path("token"))
            .arg("--ca-file")
            .arg(self.path("ca.crt"))
            .arg("--state-dir")
            .arg(self.path("agent"))
            .env_clear()
            .env("CODEBUTLER_LOG", log_filter())
            // A tenth of the pauses that people would see.
            .env("CODEBUTLER_MODEL_PATIENCE_SECONDS", "180")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(step) = die_at_step {
            agent.env("CODEBUTLER_DIE_AT_STEP", step.to_string());
        }
        more(&mut agent);
        Pod { agent: agent.spawn().unwrap(), toolbox }
    }

    /// Starts pods as the controller does, until nobody wants one. The first one may die.
    pub(crate) async fn settle(&mut self, mut die_at_step: Option<u64>) -> Vec<ExitStatus> {
        let mut ended = Vec::new();
        while self.gateway.lock().wants() && !self.gateway.lock().closed {
            let pod = self.pod(die_at_step.take());
            ended.push(pod.ended().await);
            assert!(ended.len() < 6, "pods come and go: {ended:?}");
        }
        ended
    }

    /// Runs one pod that ends well, as `settle` does.
    pub(crate) async fn one_pod(&mut self) {
        let status = self.pod(None).ended().await;
        assert!(status.success(), "{status}");
    }

    pub(crate) fn transcript(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("agent/pm/transcript.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Pod {
    /// The agent's end, and then the toolbox': it follows on its own.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        let status = tokio::time::timeout(PATIENCE, self.agent.wait())
            .await
            .expect("the agent hangs")
            .unwrap();
        let toolbox = tokio::time::timeout(PATIENCE, self.toolbox.wait())
            .await
            .expect("the toolbox hangs")
            .unwrap();
        assert!(toolbox.success(), "{toolbox}");
        status
    }
}

fn log_filter() -> String {
    std::env::var("CODEBUTLER_LOG").unwrap_or_else(|_| "error".to_owned())
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let out = std::process::Command::new("git")
        .args(["-c", "user.name=Someone", "-c", "user.email=someone@example.org"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// A bare repository with one commit on `main` and on the thread's branch, made by hand: this runs
/// for every step of a crash test.
fn make_remote(remote: &Path, scratch: &Path) {
    let seed = scratch.join("seed");
    fs::create_dir_all(&seed).unwrap();
    git(&seed, &["init", "-q", "--template=", "-b", "main"]);
    fs::write(seed.join("README"), "hello\nworld\n").unwrap();
    git(&seed, &["add", "."]);
    git(&seed, &["commit", "-q", "-m", "First"]);
    git(scratch, &["clone", "-q", "--bare", "--template=", "seed", remote.to_str().unwrap()]);
    git(remote, &["config", "core.logAllRefUpdates", "true"]);
    git(remote, &["branch", "codebutler/t", "main"]);
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A model's answer that only speaks.
pub(crate) fn says(text: &str) -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": text}}],
           "usage": {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.00125}})
}

/// A model's answer that calls tools.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| {
            let arguments = match arguments {
                Value::String(raw) => raw.clone(),
                other => other.to_string(),
            };
            json!({"id": format!("c{n}"), "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": calls}}]})
}

/// A model's answer, as its provider passes it on: the message, and how it ended.
pub(crate) fn ends(message: &Value, finish: &str) -> Value {
    json!({"choices": [{"message": message, "finish_reason": finish}],
           "usage": {"prompt_tokens": 10, "completion_tokens": 16_000}})
}

/// An answer that was cut off.
pub(crate) fn cut_off(text: &str) -> Value {
    ends(&json!({"role": "assistant", "content": text}), "length")
}

/// An answer of reasoning alone.
pub(crate) fn thinks(text: &str) -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": "", "reasoning": text}}]})
}

/// A refusal in a field of its own.
pub(crate) fn refuses(text: &str) -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": null, "refusal": text}}]})
}

/// An error after the answer had begun.
pub(crate) fn breaks(said: &str) -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": "half"}, "finish_reason": "error",
                        "error": {"code": 502, "message": said}}]})
}

/// A model that goes through its answers, one for each time that it is asked.
pub(crate) fn one_by_one(answers: Vec<Value>) -> impl Fn(&[Value]) -> Value + Send + Sync {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    move |messages| {
        let at = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        answers.get(at).cloned().unwrap_or_else(|| panic!("asked {at} times before: {messages:#?}"))
    }
}

/// A model that goes through its answers, one for each of its messages in the conversation.
pub(crate) fn in_order(answers: Vec<Value>) -> impl Fn(&[Value]) -> Value + Send + Sync {
    move |messages| {
        let said = messages.iter().filter(|m| m["role"] == "assistant").count();
        answers
            .get(said)
            .cloned()
            .unwrap_or_else(|| panic!("asked after {said} answers: {messages:#?}"))
    }
}

/// The results of tools in a conversation, in order.
pub(crate) fn results(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].as_str().unwrap())
        .collect()
}
