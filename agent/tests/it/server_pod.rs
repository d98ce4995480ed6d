//! The program of a server behind its socket: its streams are kept apart, and nothing that it starts outlives it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codebutler_agent::args::ExecArgs;
use codebutler_agent::sandbox::SandboxMode;
use codebutler_agent::server_pod::{ProgramPlan, ServerHost};
use codebutler_wire::{FrameKind, FrameReader, NotStarted, ProgramExit, write_frames};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

struct Pod {
    dir: tempfile::TempDir,
    end: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Pod {
    /// The container of a server with this command.
    fn start(command: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let exec = ExecArgs {
            sandbox: SandboxMode::Landlock,
            write: vec![dir.path().to_owned()],
            read: Vec::new(),
            hide: Vec::new(),
            command: command.iter().map(Into::into).collect(),
        };
        let supervisor = PathBuf::from(env!("CARGO_BIN_EXE_codebutler-agent"));
        let plan = ProgramPlan { exec, supervisor };
        let host = ServerHost::listen(&dir.path().join("mcp.sock"), plan).unwrap();
        let end = host.end.clone();
        Self { dir, end, serving: tokio::spawn(host.serve()) }
    }

    fn shell(script: &str) -> Self {
        Self::start(&["sh", "-c", script])
    }

    async fn connect(&self) -> Session {
        let stream = UnixStream::connect(self.dir.path().join("mcp.sock")).await.unwrap();
        Session {
            stream,
            frames: FrameReader::default(),
            output: String::new(),
            errors: String::new(),
        }
    }
}

struct Session {
    stream: UnixStream,
    frames: FrameReader,
    output: String,
    errors: String,
}

impl Session {
    async fn send(&mut self, bytes: &[u8]) {
        let mut frame = Vec::new();
        write_frames(FrameKind::Input, bytes, &mut frame);
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Reads until the output has this in it.
    async fn await_output(&mut self, wanted: &str) {
        while !self.output.contains(wanted) {
            let exit = self.step().await;
            assert!(exit.is_none(), "{exit:?}: {} {}", self.output, self.errors);
        }
    }

    /// Reads the output until the program exits.
    async fn exit(&mut self) -> ProgramExit {
        loop {
            if let Some(exit) = self.step().await {
                return exit;
            }
        }
    }

    async fn step(&mut self) -> Option<ProgramExit> {
        let mut buffer = [0; 4096];
        let reading = tokio::time::timeout(Duration::from_secs(30), self.stream.read(&mut buffer));
        let count = reading.await.expect("a frame within its time").unwrap();
        assert!(count > 0, "ended without an exit: {} {}", self.output, self.errors);
        for frame in self.frames.push(&buffer[..count]).unwrap() {
            let text = String::from_utf8_lossy(&frame.bytes);
            match frame.kind {
                FrameKind::Output => self.output.push_str(&text),
                FrameKind::Errors => self.errors.push_str(&text),
                FrameKind::Exit => return Some(serde_json::from_slice(&frame.bytes).unwrap()),
                _ => {}
            }
        }
        None
    }
}

fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

async fn until_gone(pid: &str) {
    let begun = Instant::now();
    while is_running(pid) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn each_connection_has_a_program_of_its_own_and_its_streams_are_apart() {
    let pod = Pod::shell("read line; echo \"out $line\"; echo err >&2; exit 3");
    for word in ["one", "two"] {
        let mut session = pod.connect().await;
        session.send(format!("{word}\n").as_bytes()).await;
        let exit = session.exit().await;
        assert_eq!(exit.code, Some(3));
        assert_eq!((&*session.output, &*session.errors), (&*format!("out {word}\n"), "err\n"));
    }
}

#[tokio::test]
async fn a_program_that_ends_with_its_input_can_say_its_last_words() {
    let pod = Pod::shell("cat; echo bye");
    let mut session = pod.connect().await;
    session.send(b"hello\n").await;
    session.await_output("hello\n").await;
    let begun = Instant::now();
    session.send(b"").await;
    assert_eq!(session.exit().await.code, Some(0));
    assert_eq!(session.output, "hello\nbye\n");
    assert!(begun.elapsed() < Duration::from_secs(3), "nothing was waited for");
}

#[tokio::test]
async fn a_program_that_ignores_everything_ends_with_all_that_it_started() {
    let script = "trap '' TERM HUP; setsid sleep 1000 & echo \"pid $!\"; \
                  echo \"pid $$\"; while :; do sleep 1; done";
    let pod = Pod::shell(script);
    let mut session = pod.connect().await;
    while session.output.matches("pid ").count() < 2 {
        session.step().await;
    }
    let pids: Vec<String> =
        session.output.lines().map(|line| line.trim_start_matches("pid ").to_owned()).collect();
    assert!(pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    let begun = Instant::now();
    session.send(b"").await;
    let exit = session.exit().await;
    assert!(begun.elapsed() > Duration::from_secs(5), "it had two times three seconds");
    assert_eq!(exit.signal, Some(9), "{exit:?}");
    for pid in &pids {
        until_gone(pid).await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_gone_and_a_kubelet_that_asks_end_the_program() {
    let pod = Pod::shell("echo \"pid $$\"; exec sleep 1000");
    let mut first = pod.connect().await;
    first.await_output("\n").await;
    let pid = first.output.trim_start_matches("pid ").to_owned();
    drop(first);
    until_gone(&pid).await;
    let mut second = pod.connect().await;
    second.await_output("\n").await;
    let pid = second.output.trim_start_matches("pid ").to_owned();
    pod.end.cancel();
    let exit = second.exit().await;
    assert_eq!(exit.signal, Some(15), "asked, not killed: {exit:?}");
    assert!(!is_running(&pid));
    pod.serving.await.unwrap();
}

#[tokio::test]
async fn what_can_not_be_started_is_said() {
    let missing = Pod::start(&["npx-is-not-here", "-y"]).connect_and_exit().await;
    assert_eq!(missing.not_started, Some(NotStarted::Missing("npx-is-not-here".to_owned())));
    let pod = Pod::shell("echo up; exec sleep 1000");
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut session = pod.connect().await;
        session.await_output("up").await;
        busy.push(session);
    }
    assert_eq!(pod.connect().await.exit().await.not_started, Some(NotStarted::Busy));
}

impl Pod {
    async fn connect_and_exit(&self) -> ProgramExit {
        self.connect().await.exit().await
    }
}

#[tokio::test]
async fn a_program_writes_where_it_may_and_nowhere_else() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = dir.path().join("outside");
    let script = format!(
        "echo x > {}; echo outside=$?; echo own=$(env | grep -c ^CODEBUTLER_)",
        outside.display()
    );
    let pod = Pod::shell(&script);
    let mut session = pod.connect().await;
    session.exit().await;
    assert!(
        session.output.contains("outside=2") || session.output.contains("outside=1"),
        "{}",
        session.output
    );
    assert!(!outside.exists());
    assert!(session.output.contains("own=0"), "{}", session.output);
}
