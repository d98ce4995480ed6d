//! Starts the operator's processes, and waits until they are ready.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::kubeconfig::write_kubeconfig;
use super::process::{OperatorProcess, ProcessCommand};
use super::{StackError, StackOptions};
use crate::cluster::TestCluster;

/// Subcommand that makes the operator's program the gateway.
pub(super) const GATEWAY_PART: &str = "gateway";
/// Timeout for controller and gateway to become ready.
pub(super) const READY: Duration = Duration::from_mins(1);

pub(super) fn part_error<E: Into<anyhow::Error>>(part: &'static str) -> impl Fn(E) -> StackError {
    move |source| StackError::Part { part, source: source.into() }
}

pub(super) fn io_error(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StackError {
    let what = what.into();
    move |source| StackError::Io { what, source }
}

/// Parameters that the operator's processes are started with.
pub(super) struct ProcessSetup<'a> {
    pub cluster: &'a TestCluster,
    pub options: &'a StackOptions,
    pub operator: PathBuf,
    pub watched: Vec<String>,
    /// Proxy variables, set for the gateway alone.
    pub proxies: &'a [(String, String)],
}

impl ProcessSetup<'_> {
    /// Starts one with its own ServiceAccount's token.
    pub(super) async fn spawn(
        &self,
        name: &str,
        flags: Vec<String>,
    ) -> Result<OperatorProcess, StackError> {
        let (options, account) = (self.options, format!("codebutler-{name}"));
        let (dir, system) = (&options.dir, &options.place.system);
        let config = write_kubeconfig(self.cluster, dir, system, &account).await;
        let config = config.map_err(part_error("kubeconfig"))?;
        let proxies = self.proxies.iter().filter(|_| name == GATEWAY_PART);
        let watched = self.watched.iter().map(|name| format!("--namespaces={name}").into());
        ProcessCommand {
            program: self.operator.clone(),
            args: std::iter::once(name.into())
                .chain(flags.into_iter().map(OsString::from))
                .chain([format!("--namespace={system}").into()])
                .chain(watched)
                .collect(),
            env: [
                ("KUBECONFIG".to_owned(), config.into_os_string()),
                ("CODEBUTLER_LOG".to_owned(), options.log.clone().into()),
            ]
            .into_iter()
            .chain(proxies.map(|(name, url)| (name.clone(), url.into())))
            .collect(),
            log: dir.join("logs").join(format!("{name}.log")),
        }
        .spawn()
        .map_err(io_error(format!("starting the {name}")))
    }
}

/// Makes the product's binary known by another name, which is what decides what it is.
pub(super) fn link_program(dir: &Path, program: &Path, name: &str) -> Result<PathBuf, StackError> {
    let path = dir.join("bin").join(name);
    match symlink(program, &path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(io_error("linking")(e)),
        _ => Ok(path),
    }
}

pub(super) async fn await_ready(
    name: &'static str,
    process: &mut OperatorProcess,
    address: SocketAddr,
) -> Result<(), StackError> {
    // Readiness is told without TLS: of the machine's authorities, some hundred and fifty files, none is read.
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let client = client.build().map_err(part_error(name))?;
    let url = format!("http://{address}/readyz");
    let deadline = Instant::now() + READY;
    loop {
        let answer = client.get(&url).timeout(Duration::from_secs(2)).send().await;
        if answer.is_ok_and(|a| a.status().is_success()) {
            return Ok(());
        }
        if process.exited().is_some() || Instant::now() > deadline {
            let log = std::fs::read_to_string(process.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let log = lines[lines.len().saturating_sub(15)..].join("\n");
            return Err(StackError::NotReady { process: name, within: READY, log });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
