//! The gateway as a process of its own, killed at every step of a model call: whatever happens, what
//! it put on record is what the provider billed, and what it could not know is flagged.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::ConfigMap;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Certificate;
use serde_json::json;
use tokio::process::{Child, Command};

use super::{World, eventually};

const CALL: NanoUsd = NanoUsd(300_000_000);
/// More than a call passes: a walk that goes on for longer never ends.
const MOST: u64 = 40;
/// Metric of the replica that serves agents.
const LEADS: &str = "codebutler_gateway_leader 1";

pub(super) struct Holder {
    pub child: Child,
    pub address: SocketAddr,
}

impl Holder {
    pub(super) async fn start(world: &World, die_at: Option<u64>) -> Self {
        let mut holder = Self::spawn(world, "codebutler-gateway-0", die_at, 60).await;
        assert!(holder.serves().await, "the gateway does not serve");
        holder
    }

    /// Starts one as a pod of this name.
    pub(super) async fn spawn(world: &World, pod: &str, die_at: Option<u64>, lease: u32) -> Self {
        let (mut command, address) = Self::command(world, pod, lease).await;
        if let Some(step) = die_at {
            command.env("CODEBUTLER_DIE_AT_STEP", step.to_string());
        }
        Self { child: command.spawn().unwrap(), address }
    }

    /// Starts one with further arguments.
    pub(super) async fn spawn_with(world: &World, pod: &str, lease: u32, args: &[&str]) -> Self {
        let (mut command, address) = Self::command(world, pod, lease).await;
        Self { child: command.args(args).spawn().unwrap(), address }
    }

    async fn command(world: &World, pod: &str, lease: u32) -> (Command, SocketAddr) {
        let dir = world.dir.path();
        let program = dir.join("codebutler-operator");
        if !program.exists() {
            symlink(env!("CARGO_BIN_EXE_demo"), &program).unwrap();
            std::fs::write(dir.join("kubeconfig"), world.cluster.kubeconfig().await).unwrap();
        }
        // All of 127.0.0.0/8 is local: no port has to be guessed free.
        let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
        let ip = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
        let address = SocketAddr::from((ip, 8443));
        let mut command = Command::new(&program);
        command
            .arg("gateway")
            .arg(format!("--listen={address}"))
            .arg(format!("--namespace={}", world.cluster.system()))
            .args(world.cluster.watched().iter().map(|name| format!("--namespaces={name}")))
            .arg(format!("--pod={pod}"))
            // No real address of this machine is one that the API server takes for a pod's.
            .arg("--pod-ip=10.1.0.1")
            .arg(format!("--lease-seconds={lease}"))
            .arg(format!("--metrics-address={ip}:8080"))
            .arg(format!("--slack-api={}", world.slack.api_url()))
            // The outside world of these tests is on this machine.
            .arg("--egress-allow=127.0.0.0/8")
            .arg(format!("--git-cache={}", dir.join("cache").display()))
            .env_clear()
            .env("KUBECONFIG", dir.join("kubeconfig"))
            .env("CODEBUTLER_LOG", "info")
            .stdin(Stdio::null())
            .stdout(log(dir))
            .stderr(log(dir))
            .kill_on_drop(true);
        (command, address)
    }

    /// True if agents can connect.
    pub(super) async fn is_open(&self) -> bool {
        tokio::net::TcpStream::connect(self.address).await.is_ok()
    }

    /// True if it says itself that it serves agents.
    async fn leads(&self) -> bool {
        let url = format!("http://{}:8080/metrics", self.address.ip());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let Ok(answer) = client.get(url).send().await else { return false };
        answer.text().await.is_ok_and(|text| text.lines().any(|line| line == LEADS))
    }

    /// Waits until it serves agents, or is dead; answers no if it takes too long.
    pub(super) async fn serves(&mut self) -> bool {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        while !(self.is_open().await && self.leads().await) {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            if tokio::time::Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }

    /// A call; nothing if there was no answer.
    pub(super) async fn ask(&self, world: &World) -> Option<u16> {
        self.call(world, false).await
    }

    /// The same, perhaps with the answer as it comes.
    pub(super) async fn call(&self, world: &World, stream: bool) -> Option<u16> {
        self.answer(world, stream).await.map(|(status, _)| status)
    }

    /// The same with the answer.
    pub(super) async fn answer(&self, world: &World, stream: bool) -> Option<(u16, Bytes)> {
        answer_at(world, self.address, stream).await
    }

    /// Waits until everything is on record, or it is dead.
    pub(super) async fn rests(&mut self, world: &World) {
        let granted = || async {
            let thread = world.thread().await.status.and_then(|status| status.budget);
            let repo = world.repo().await.status.and_then(|status| status.spend);
            let zero = NanoUsd::ZERO;
            thread.map_or(zero, |b| b.granted) + repo.map_or(zero, |s| s.granted) != zero
        };
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        while self.child.try_wait().unwrap().is_none() && granted().await {
            assert!(tokio::time::Instant::now() < deadline, "grants stay: {}", world.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends SIGTERM to the process.
    pub(super) fn tell_to_stop(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Tells it to stop; answers whether it lived until then, and ended well.
    pub(super) async fn stop(mut self) -> bool {
        self.tell_to_stop();
        let ended = tokio::time::timeout(Duration::from_mins(1), self.child.wait()).await;
        ended.expect("the gateway does not stop").unwrap().success()
    }
}

/// Returns the answer of the gateway there to a call; nothing if it does not answer.
pub(super) async fn answer_at(
    world: &World,
    address: SocketAddr,
    stream: bool,
) -> Option<(u16, Bytes)> {
    let maps = world.cluster.api::<ConfigMap>(world.cluster.system());
    let map = maps.get_opt("codebutler-gateway-ca").await.unwrap()?;
    let ca = Certificate::from_pem(map.data.unwrap()["ca.crt"].as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy();
    let client = client.resolve(&world.cluster.host(), address).build().unwrap();
    let body = json!({
        "model": "scripted/coder", "max_tokens": 1000, "stream": stream,
        "messages": [{"role": "user", "content": "x"}],
    });
    let request = client
        .post(format!("https://{}:8443/v1/chat/completions", world.cluster.host()))
        .json(&body);
    let answer = request.bearer_auth(world.token("coder")).send().await.ok()?;
    let status = answer.status().as_u16();
    answer.bytes().await.ok().map(|body| (status, body))
}

fn log(dir: &Path) -> std::fs::File {
    std::fs::File::options().create(true).append(true).open(dir.join("gateway.log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_dies_at_every_step_of_a_call_and_every_dollar_is_accounted_for() {
    let script = ModelScript::of("coder", vec![ScriptStep::say("one").costing(10, 10, "0.3")]);
    let prices = json!({"scripted/coder": {"completion": "300"}});
    let spec = json!({"model": {"prices": prices}});
    let world = World::play(script, &spec, &json!({})).await;
    let (mut kills, mut step) = (0, 0);
    loop {
        step += 1;
        assert!(step < MOST, "it never lives: {}", world.log());
        let mut holder = Holder::start(&world, Some(step)).await;
        let before = world.models.billed().total();
        let answered = holder.ask(&world).await;
        holder.rests(&world).await;
        let lived = holder.stop().await;
        kills += u64::from(!lived);
        let billed = world.models.billed().total();
        assert!(billed.less(before) <= CALL, "at most the call in flight");
        let status = world.thread().await.status.unwrap();
        let (cost, budget) = (status.cost.unwrap_or_default(), status.budget.unwrap_or_default());
        // Whatever is not settled is granted or flagged: nothing was spent that is not on record.
        let spend = world.repo().await.status.and_then(|status| status.spend).unwrap_or_default();
        for (settled, open) in [
            (cost, budget.granted + budget.flagged),
            (spend.settled, spend.granted + spend.flagged),
        ] {
            assert!(settled <= billed && billed <= settled + open, "{step}: {}", world.log());
        }
        if lived && answered == Some(200) {
            break;
        }
    }
    assert!(kills >= 6, "{kills} steps of a call");

    // A last one finds what is left, flags it, and goes on.
    let holder = Holder::start(&world, None).await;
    eventually("grants of the dead are flagged", || async {
        let status = world.thread().await.status.unwrap();
        status.budget.is_none_or(|budget| budget.granted == NanoUsd::ZERO)
    })
    .await;
    assert_eq!(holder.ask(&world).await, Some(200));
    assert!(holder.stop().await, "{}", world.log());
    let (status, billed) = (world.thread().await.status.unwrap(), world.models.billed());
    let settled = status.cost.unwrap_or_default();
    let budget = status.budget.unwrap_or_default();
    let calls = status.roles["coder"].usage.calls;
    assert_eq!(settled, NanoUsd(calls * CALL.0), "what is settled is what was billed");
    assert_eq!((budget.granted, budget.holder), (NanoUsd::ZERO, None));
    let unsettled = billed.total().less(settled);
    assert!(unsettled <= budget.flagged, "calls in flight are flagged");
    assert!(budget.flagged <= NanoUsd(kills * CALL.0), "and nothing but those");
}

impl World {
    pub(super) fn log(&self) -> String {
        let text = std::fs::read_to_string(self.dir.path().join("gateway.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}
