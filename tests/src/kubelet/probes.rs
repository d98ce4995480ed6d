//! Startup, liveness and readiness probes.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::entry::{PodEntry, lock};
use super::sandbox::{self, spec::ExecSpec};

/// Watches a container that has just started, and returns when it has to be killed: why.
pub(super) async fn monitor_container(entry: &PodEntry, container: &Container) -> String {
    if let Some(probe) = &container.startup_probe {
        let (mut good, mut bad) = (0, 0);
        wait_seconds(probe.initial_delay_seconds, 0).await;
        loop {
            let passed = check_probe(entry, container, probe).await;
            (good, bad) = if passed { (good + 1, 0) } else { (0, bad + 1) };
            if good >= probe.success_threshold.unwrap_or(1) {
                break;
            }
            if bad >= probe.failure_threshold.unwrap_or(3) {
                return "failed startup probe".to_owned();
            }
            wait_seconds(probe.period_seconds, 10).await;
        }
    }
    let ready = container.readiness_probe.is_none();
    entry.update(&container.name, |record| (record.started, record.ready) = (true, ready));
    let readiness = async {
        if let Some(probe) = &container.readiness_probe {
            await_turn(entry, container, probe, |passed| {
                entry.record.send_if_modified(|record| {
                    let Some(known) = record.containers.get_mut(&container.name) else {
                        return false;
                    };
                    std::mem::replace(&mut known.ready, passed) != passed
                });
                true
            })
            .await;
        }
        std::future::pending::<()>().await;
    };
    let liveness = async {
        match &container.liveness_probe {
            Some(probe) => await_turn(entry, container, probe, |passed| passed).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = readiness => {}
        () = liveness => {}
    }
    "failed liveness probe".to_owned()
}

/// Probes for as long as `turned` (called when a threshold is reached) says so.
async fn await_turn(
    entry: &PodEntry,
    container: &Container,
    probe: &Probe,
    turned: impl Fn(bool) -> bool,
) {
    wait_seconds(probe.initial_delay_seconds, 0).await;
    let (mut good, mut bad) = (0, 0);
    loop {
        let passed = check_probe(entry, container, probe).await;
        (good, bad) = if passed { (good + 1, 0) } else { (0, bad + 1) };
        let reached = good >= probe.success_threshold.unwrap_or(1)
            || bad >= probe.failure_threshold.unwrap_or(3);
        if reached && !turned(passed) {
            return;
        }
        wait_seconds(probe.period_seconds, 10).await;
    }
}

fn wait_seconds(seconds: Option<i32>, default: u64) -> impl Future<Output = ()> {
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(default);
    tokio::time::sleep(Duration::from_secs(seconds))
}

async fn check_probe(entry: &PodEntry, container: &Container, probe: &Probe) -> bool {
    let seconds = probe.timeout_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(1).max(1);
    let limit = Duration::from_secs(seconds);
    let result = tokio::time::timeout(limit, attempt_probe(entry, container, probe, limit)).await;
    match result {
        Ok(Ok(passed)) => passed,
        Ok(Err(error)) => {
            tracing::debug!(pod = entry.name, container = container.name, %error, "probe");
            false
        }
        Err(_) => false,
    }
}

async fn attempt_probe(
    entry: &PodEntry,
    container: &Container,
    probe: &Probe,
    limit: Duration,
) -> Result<bool, sandbox::SandboxError> {
    if let Some(action) = &probe.exec {
        let argv = action.command.clone().unwrap_or_default();
        let output = exec_probe(entry, &container.name, argv, limit).await?;
        return Ok(output.status.success());
    }
    if let Some(action) = &probe.tcp_socket {
        connect_port(entry, container, &action.port).await?;
        return Ok(true);
    }
    if let Some(action) = &probe.http_get {
        let connection = connect_port(entry, container, &action.port).await?;
        let path = action.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
        let mut head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
        let headers = action.http_headers.clone().unwrap_or_default();
        if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        for header in headers {
            head.extend([&header.name, ": ", &header.value, "\r\n"]);
        }
        return Ok(http_status(connection, head)
            .await?
            .is_some_and(|code| (200..400).contains(&code)));
    }
    Err(sandbox::SandboxError::Refused("unsupported kind of probe".to_owned()))
}

/// Runs a command in a container exactly as the container's own command runs.
pub(super) async fn exec_probe(
    entry: &PodEntry,
    container: &str,
    argv: Vec<String>,
    limit: Duration,
) -> Result<std::process::Output, sandbox::SandboxError> {
    let not_running = || sandbox::SandboxError::Refused(format!("{container} is not running"));
    let running = lock(&entry.running).get(container).cloned().ok_or_else(not_running)?;
    let sandbox = entry.sandbox.get().ok_or_else(not_running)?;
    let mut process = running.process;
    process.argv = argv;
    let spec = ExecSpec { pod: sandbox.pid(), container: running.started, process };
    sandbox::exec_command(&entry.node.options.self_exe, &spec, limit).await
}

async fn connect_port(
    entry: &PodEntry,
    container: &Container,
    port: &IntOrString,
) -> Result<TcpStream, sandbox::SandboxError> {
    let refused = |why: &str| sandbox::SandboxError::Refused(why.to_owned());
    let port = port_number(container, port).ok_or_else(|| refused("no such port"))?;
    let ip = entry.record.borrow().ip.ok_or_else(|| refused("pod has no address"))?;
    let sandbox = entry.sandbox.get().ok_or_else(|| refused("pod has no network"))?;
    sandbox.connect(SocketAddr::new(ip, port)).await
}

fn port_number(container: &Container, port: &IntOrString) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            ports.find(|port| port.name.as_ref() == Some(name))?.container_port
        }
    };
    u16::try_from(number).ok()
}

async fn http_status(mut connection: TcpStream, head: String) -> std::io::Result<Option<u16>> {
    connection.write_all(format!("{head}User-Agent: kube-probe\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    // The status line is all that counts.
    connection.take(256).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.split(' ').nth(1).and_then(|code| code.parse().ok()))
}
