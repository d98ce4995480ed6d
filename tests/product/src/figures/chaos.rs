//! A hundred kills at random moments, of the controller, the gateway or an agent, while people and
//! roles work: plans are approved, files committed and pushed, pull requests opened, reports
//! posted. Afterwards every word was read, nothing with a key was done twice, and no money that the
//! provider billed is missing from the books.

mod roadmap;
mod sharded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use codebutler_crds::{Thread, names};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

pub(super) use self::sharded::measure_sharded;
use super::{MeasuredFigure, long_or_short, wait_until};
use codebutler_testbed::github::DrivenRepository;
use codebutler_testbed::kubelet::ProcessKubelet;
use codebutler_testbed::models::{ModelScript, ModelServer, ScriptStep};
use codebutler_testbed::place::{InstallPlace, TEAM};
use codebutler_testbed::slack::{MessageView, SlackServer};
use codebutler_testbed::stack::part::StackPart;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

/// Processes that are killed.
const KILLS: usize = long_or_short(100, 6);
/// Time between two kills, in milliseconds.
const PAUSE: std::ops::Range<u64> = 300..1800;
/// Conversations at any time.
const SIDE_BY_SIDE: usize = 3;
/// Pods of one role that may die in a row: the controller gives up at the fifth.
const IN_A_ROW: u32 = 3;
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_mins(5);
/// A person who sees nothing happen clicks again after this time.
const CLICKS_AGAIN: Duration = Duration::from_secs(5);

const PLAN: &str = "Plan: set the price";
const HALFWAY: &str = "halfway there";
const DONE: &str = "All done.";

/// Numbers of lost and of doubled effects.
#[derive(Debug, Default)]
struct CountedHarm {
    lost: usize,
    doubled: usize,
}

/// Lost messages, doubled effects, missing money.
pub(super) async fn measure_chaos() -> anyhow::Result<Vec<MeasuredFigure>> {
    let seed = choose_seed();
    let dir = tempfile::tempdir()?;
    let options = shop_options(dir.path())?;
    let mut stack = Box::pin(RunningStack::start(options)).await?;
    let figures = Box::pin(run_chaos(&mut stack, StdRng::seed_from_u64(seed))).await;
    stack.stop().await?;
    let mut figures =
        figures.with_context(|| format!("CODEBUTLER_SEED={seed} tries this again"))?;
    figures.extend(Box::pin(roadmap::measure_roadmap()).await?);
    Ok(figures)
}

/// Seed of all random choices of a run: the same one tries the same again.
fn choose_seed() -> u64 {
    let seed = std::env::var("CODEBUTLER_SEED").ok().and_then(|seed| seed.parse().ok());
    seed.unwrap_or_else(rand::random)
}

/// Options of a stack whose repository has one file, with a price.
fn shop_options(dir: &Path) -> anyhow::Result<StackOptions> {
    let files = dir.join("files");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("price.txt"), "price = 0.1\n")?;
    chaos_options(dir, files, chaos_script())
}

fn chaos_options(dir: &Path, files: PathBuf, script: ModelScript) -> anyhow::Result<StackOptions> {
    let dir = dir.join("stack");
    std::fs::create_dir_all(&dir)?;
    Ok(StackOptions {
        dir,
        place: InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec!["pm".to_owned(), "coder".to_owned()],
        branch: "main".to_owned(),
        files,
        script,
        idle_timeout_seconds: Some(2),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: None,
        edit_role: None,
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::default(),
    })
}

/// A pm that plans and a coder's whole day.
fn chaos_script() -> ModelScript {
    let plan = json!({"message": PLAN, "waitForReply": true, "decision": "plan"});
    let pm = vec![
        ScriptStep::tool("SendMessage", plan),
        ScriptStep::tool("SendMessage", json!({"message": "Merge?", "decision": "merge"})),
        ScriptStep::say("noted"),
        ScriptStep::say("noted again"),
    ];
    let edit = json!({"path": "price.txt", "edits": [{"old": "0.1", "new": "0.2"}]});
    let coder = vec![
        ScriptStep::tool("Read", json!({"path": "price.txt"})),
        ScriptStep::tool("Edit", edit),
        ScriptStep::tool("GitCommit", json!({"message": "Set the price to 0.2"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Set the price", "body": "As planned."})),
        ScriptStep::tool("SendMessage", json!({"message": HALFWAY})),
        ScriptStep::say(&format!("@codebutler.pm {DONE}")),
        ScriptStep::say("One too many."),
    ];
    let paid = |steps: Vec<ScriptStep>| {
        steps.into_iter().map(|step| step.costing(100, 10, "0.000123456")).collect()
    };
    ModelScript::of("pm", paid(pm)).and("coder", paid(coder))
}

async fn run_chaos(stack: &mut RunningStack, rng: StdRng) -> anyhow::Result<Vec<MeasuredFigure>> {
    let threads = stack.threads();
    let pods = Api::<Pod>::namespaced(stack.cluster.client(), TEAM);
    let killed = AtomicUsize::new(0);
    let office = TeamOffice {
        slack: &stack.slack,
        remote: &stack.remote,
        models: &stack.models,
        threads: &threads,
        ana: stack.users.get("ana").context("ana")?,
        repo: &stack.repo,
        channel: &stack.channel,
        killed: &killed,
    };
    let trouble = ProcessKiller {
        controller: &mut stack.controller,
        gateways: vec![&mut stack.gateway],
        kubelet: stack.kubelet.as_ref().context("a kubelet")?,
        pods,
        threads: &threads,
        killed: &killed,
        rng,
    };
    let desks = try_join_all((0..SIDE_BY_SIDE).map(|desk| office.work(desk)));
    let (done, ()) = tokio::try_join!(desks, trouble.kill())?;
    let talks: usize = done.iter().map(|(talks, _)| talks).sum();
    let lost: usize = done.iter().map(|(_, harm)| harm.lost).sum();
    let doubled: usize = done.iter().map(|(_, harm)| harm.doubled).sum();
    let missing = office.missing().await?;
    #[allow(clippy::cast_precision_loss)] // handfuls, and less than a dollar
    let figure =
        |name, value, unit, limit| MeasuredFigure::at_most(name, value as f64, unit, limit);
    #[allow(clippy::cast_precision_loss)]
    let kills = killed.load(Ordering::SeqCst) as f64;
    #[allow(clippy::cast_precision_loss)]
    let conversations = talks as f64;
    let roots = stack.slack.messages(&stack.channel, None);
    let said: usize =
        roots.iter().map(|root| stack.slack.messages(&stack.channel, Some(&root.ts)).len()).sum();
    #[allow(clippy::cast_precision_loss)]
    let reads = stack.slack.calls("conversations.replies") as f64;
    // A gateway that begins anew reads the open conversations once more.
    #[allow(clippy::cast_precision_loss)]
    let causes = said as f64 + kills * SIDE_BY_SIDE as f64;
    Ok(vec![
        MeasuredFigure::at_least("chaos.kills", kills, "count", 100.0),
        MeasuredFigure::at_least("chaos.conversations", conversations, "count", 3.0),
        figure("chaos.lost_messages", lost as u64, "count", 0.0),
        figure("chaos.doubled_effects", doubled as u64, "count", 0.0),
        figure("chaos.missing_nano_dollars", missing, "count", 0.0),
        MeasuredFigure::at_most("chaos.reads", reads / causes, "a message or start", 1.0),
    ])
}

/// The environment in which people work: chat, Git host, models and Threads.
struct TeamOffice<'a> {
    slack: &'a SlackServer,
    remote: &'a DrivenRepository,
    models: &'a ModelServer,
    threads: &'a Api<Thread>,
    ana: &'a str,
    repo: &'a str,
    channel: &'a str,
    killed: &'a AtomicUsize,
}

impl TeamOffice<'_> {
    /// Holds one conversation after another until all kills have been made; returns their number and the harm.
    async fn work(&self, desk: usize) -> anyhow::Result<(usize, CountedHarm)> {
        let (mut talks, mut harm) = (0, CountedHarm::default());
        while self.killed.load(Ordering::SeqCst) < KILLS {
            let name = format!("desk {desk} talk {talks}");
            let own = self.talk(&name).await.with_context(|| name.clone())?;
            harm.lost += own.lost;
            harm.doubled += own.doubled;
            talks += 1;
        }
        Ok((talks, harm))
    }

    /// A change from the first word to the last, and an aside on the way.
    async fn talk(&self, name: &str) -> anyhow::Result<CountedHarm> {
        let root = self.say(None, &format!("{name}: change the price"))?;
        let plan = self.message(&root, PLAN).await?;
        let thread = names::thread_name(self.repo, &root.parse()?);
        self.approve(&thread, &plan.ts).await?;
        let aside = format!("{name}: only the price");
        self.say(Some(&root), &format!("@codebutler.pm {aside}"))?;
        self.message(&root, DONE).await?;
        wait_until("the aside to be read", PATIENCE, || async {
            Ok(self.read(&aside).then_some(()))
        })
        .await?;
        let branch = wait_until("both roles to be done", PATIENCE, || async {
            let thread = self.threads.get(&thread).await?;
            let status = thread.status.unwrap_or_default();
            let busy = ["pm", "coder"].iter().any(|role| status.wants(role));
            Ok(status.branch.filter(|_| !busy))
        })
        .await?;

        let messages = self.slack.messages(self.channel, Some(&root));
        let said = |text: &str| messages.iter().filter(|m| m.shown.contains(text)).count();
        let commits = self.remote.log(&format!("main..{branch}")).await?.len();
        let pulls = self.remote.pulls().await?.iter().filter(|p| p.head == branch).count();
        let effects = [said(PLAN), said(HALFWAY), said(DONE), commits, pulls];
        Ok(CountedHarm {
            lost: effects.iter().filter(|times| **times == 0).count(),
            doubled: effects.iter().map(|times| times.saturating_sub(1)).sum::<usize>()
                + said("One too many."),
        })
    }

    fn say(&self, root: Option<&str>, text: &str) -> anyhow::Result<String> {
        Ok(self.slack.post_as(self.ana, self.channel, root, text)?)
    }

    /// True if a text was part of any request to a model.
    fn read(&self, text: &str) -> bool {
        self.models.requests().iter().any(|request| request.body.to_string().contains(text))
    }

    async fn message(&self, root: &str, text: &str) -> anyhow::Result<MessageView> {
        wait_until(text, PATIENCE, || async {
            let messages = self.slack.messages(self.channel, Some(root));
            Ok(messages.into_iter().find(|message| message.shown.contains(text)))
        })
        .await
    }

    /// Clicks until it counts: Slack tells a person at once when nobody takes a click.
    async fn approve(&self, thread: &str, plan: &str) -> anyhow::Result<()> {
        let mut clicked: Option<Instant> = None;
        wait_until("the plan to be approved", PATIENCE, || {
            if clicked.is_none_or(|at| at.elapsed() > CLICKS_AGAIN) {
                clicked = Some(Instant::now());
                // Once it counted the button is gone, and a click fails.
                let _ = self.slack.click(self.ana, self.channel, plan, "plan:approve");
            }
            async move {
                let status = self.threads.get(thread).await?.status.unwrap_or_default();
                Ok(status.plan.and_then(|plan| plan.approved_by).map(drop))
            }
        })
        .await
    }

    /// Amount that the provider billed and no Thread has on its books, settled or flagged.
    async fn missing(&self) -> anyhow::Result<u64> {
        let threads = self.threads.list(&ListParams::default()).await?;
        let booked: u64 = threads
            .iter()
            .filter_map(|thread| thread.status.as_ref())
            .map(|status| {
                let flagged = status.budget.as_ref().map_or(0, |budget| budget.flagged.0);
                status.cost.map_or(0, |cost| cost.0) + flagged
            })
            .sum();
        Ok(self.models.billed().total().0.saturating_sub(booked))
    }
}

/// The part that kills processes and pods while people work.
struct ProcessKiller<'a> {
    controller: &'a mut StackPart,
    gateways: Vec<&'a mut StackPart>,
    kubelet: &'a ProcessKubelet,
    pods: Api<Pod>,
    threads: &'a Api<Thread>,
    killed: &'a AtomicUsize,
    rng: StdRng,
}

impl ProcessKiller<'_> {
    async fn kill(mut self) -> anyhow::Result<()> {
        while self.killed.load(Ordering::SeqCst) < KILLS {
            let pause = self.rng.random_range(PAUSE);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            match self.rng.random_range(0..3) {
                0 => start_again(self.controller).await?,
                1 => {
                    let one = self.rng.random_range(0..self.gateways.len());
                    start_again(self.gateways[one]).await?;
                }
                _ => {
                    if !self.agent().await? {
                        continue;
                    }
                }
            }
            self.killed.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Kills a running agent, if there is one whose role has not died too often.
    async fn agent(&mut self) -> anyhow::Result<bool> {
        let failures: BTreeMap<(String, String), u32> = self
            .threads
            .list(&ListParams::default())
            .await?
            .into_iter()
            .flat_map(|thread| {
                let name = thread.name_any();
                let roles = thread.status.unwrap_or_default().roles;
                roles.into_iter().map(move |(role, own)| ((name.clone(), role), own.failures))
            })
            .collect();
        let all = self.pods.list(&ListParams::default()).await?;
        let running: Vec<String> = all
            .iter()
            .filter(|pod| {
                let label = |key| pod.labels().get(key).cloned().unwrap_or_default();
                let role = (label(names::LABEL_THREAD), label(names::LABEL_ROLE));
                failures.get(&role).is_some_and(|failures| *failures < IN_A_ROW)
            })
            .map(kube::ResourceExt::name_any)
            .collect();
        let Some(pod) = running.choose(&mut self.rng) else { return Ok(false) };
        Ok(self.kubelet.kill(TEAM, pod, names::pod::AGENT, Signal::SIGKILL).is_ok())
    }
}

async fn start_again(process: &mut StackPart) -> anyhow::Result<()> {
    if let Some(status) = process.exited() {
        let log = std::fs::read_to_string(process.log()).unwrap_or_default();
        bail!("a process ended by itself ({status}):\n{log}");
    }
    process.kill().await?;
    Ok(process.restart().await?)
}
