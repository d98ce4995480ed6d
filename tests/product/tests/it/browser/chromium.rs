//! A browser on a string: Debian's chromium, driven over its DevTools protocol.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::PATIENCE;

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
];

/// Size of the page's viewport, in CSS pixels.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub width: u32,
    pub height: u32,
    pub phone: bool,
}

/// One page of a browser of its own.
pub(super) struct Browser {
    child: Child,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: Value,
    number: u64,
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; without chromium on the machine it says so in one line.
    pub(super) async fn start() -> Option<Self> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&folders).collect();
        let programs = NAMES.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
        let Some(program) = programs.into_iter().find(|path| path.exists()) else {
            let _ = writeln!(std::io::stderr(), "skipped: no chromium for the browser test");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = tokio::time::timeout(PATIENCE, async {
            loop {
                let line = lines.next_line().await.unwrap().expect("chromium ended");
                if let Some(address) = line.strip_prefix("DevTools listening on ") {
                    return address.to_owned();
                }
            }
        });
        let address = address.await.expect("chromium does not listen");
        // It must not block on what nobody reads.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
        let mut browser = Self {
            child,
            socket,
            session: Value::Null,
            number: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attach).await["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        Some(browser)
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        loop {
            let answer = self.ask(method, &params).await;
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            // A page that is just being opened: the one that is there then is meant.
            if said.contains("Inspected target navigated") && method == "Runtime.evaluate" {
                continue;
            }
            assert!(answer["error"].is_null(), "{method}: {answer}");
            return answer["result"].clone();
        }
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, async {
            loop {
                let Message::Text(text) = self.socket.next().await.unwrap().unwrap() else {
                    continue;
                };
                let answer: Value = serde_json::from_str(&text).unwrap();
                if answer["id"] == self.number {
                    return answer;
                }
                let entry = &answer["params"]["entry"];
                if answer["method"] == "Runtime.exceptionThrown" || entry["level"] == "error" {
                    self.complaints.push(answer["params"].to_string());
                }
            }
        });
        answer.await.unwrap_or_else(|_| panic!("no answer to {method}"))
    }

    pub(super) async fn resize(&mut self, size: Size) {
        let Size { width, height, phone } = size;
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
        // Until it has been laid out anew.
        self.value("new Promise(done => requestAnimationFrame(() => setTimeout(done)))").await;
    }

    /// Sets the color scheme that people prefer: `light` or `dark`.
    pub(super) async fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// The tab that is spoken to.
    pub(super) async fn tab(&mut self) -> Value {
        self.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await;
        self.session.clone()
    }

    /// Opens one more, which is looked at like all others.
    pub(super) async fn open_tab(&mut self, url: &str) -> Value {
        self.session = Value::Null;
        let target = self.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        self.session = self.call("Target.attachToTarget", attach).await["sessionId"].clone();
        self.call("Page.enable", json!({})).await;
        self.call("Runtime.enable", json!({})).await;
        let tab = self.tab().await;
        self.open(url).await;
        tab
    }

    /// Speaks to another tab from now on.
    pub(super) fn turn_to(&mut self, tab: &Value) {
        self.session.clone_from(tab);
    }

    pub(super) async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url})).await;
    }

    /// Returns the value of an expression, once it is settled.
    pub(super) async fn value(&mut self, expression: &str) -> Value {
        let answer = self.evaluate(expression).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    async fn evaluate(&mut self, expression: &str) -> Value {
        let wanted = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        self.call("Runtime.evaluate", wanted).await
    }

    /// Runs a statement and drops its value.
    pub(super) async fn run(&mut self, statement: &str) {
        self.value(&format!("void ({statement})")).await;
    }

    /// Waits until an expression is true. What it looks at may not be there yet.
    pub(super) async fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.evaluate(&format!("Boolean({expression})")).await;
            if answer["result"]["value"] == json!(true) {
                return;
            }
            let text = "document.body.innerText.slice(-2000)";
            assert!(
                Instant::now() < deadline,
                "never {expression}: {answer}\n{}",
                self.value(text).await
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Presses a key until an expression is true, at most so many times.
    pub(super) async fn press_until(&mut self, key: &str, times: u32, expression: &str) {
        for _ in 0..times {
            if self.value(&format!("Boolean({expression})")).await == json!(true) {
                return;
            }
            self.key(key).await;
        }
        panic!("{times} times {key}, and not {expression}");
    }

    /// Presses a key, as a keyboard does.
    pub(super) async fn key(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            other => panic!("unknown key {other}"),
        };
        let mut event =
            json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            event["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", event.clone()).await;
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event).await;
    }

    pub(super) async fn screenshot(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        let data = shot["data"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Errors on the page so far.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.complaints.clone()
    }

    pub(super) async fn close(mut self) {
        self.session = Value::Null;
        self.call("Browser.close", json!({})).await;
        let _ = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await;
    }
}
