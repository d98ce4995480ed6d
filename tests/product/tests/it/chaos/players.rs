//! Everybody around the controller: users who write, a gateway that keeps marks, a kubelet and
//! agents that do what they are told, somebody who deletes things, and the one who looks at the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, names};
use codebutler_testbed::place::TEAM;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const ROLES: [&str; 2] = ["pm", "coder"];
/// Threads that are open at the same time.
const MOST: usize = 8;
/// Threads in which a role may run at the same time, and roles.
pub(super) const THREADS: usize = 3;
pub(super) const RUNS: usize = 4;
/// Pods that die of their own; more of them would only make everybody wait.
const ACCIDENTS: u64 = 4;

/// The gateway's marks: for each open thread and role, the newest message.
type Marks = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Clone)]
struct World {
    client: Client,
    /// Namespace of the team.
    team: String,
    marks: Arc<Mutex<Marks>>,
    clock: Arc<AtomicU64>,
    /// Roles that had a slot at the same time, at most.
    most: Arc<AtomicUsize>,
}

pub(super) struct Team {
    world: World,
    stop: CancellationToken,
    kubelet: JoinHandle<()>,
}

impl World {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.team)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap()
    }

    /// Returns the timestamp of the next message.
    fn tick(&self) -> String {
        format!("{}.000100", self.clock.fetch_add(1, Ordering::SeqCst))
    }

    async fn role(&self, thread: &str, role: &str, fields: Value) {
        let patch = Patch::Merge(json!({"status": {"roles": {role: fields}}}));
        // Gone meanwhile, perhaps.
        let _ = self.api::<Thread>().patch_status(thread, &PatchParams::default(), &patch).await;
    }

    async fn phase(&self, pod: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let _ = self.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await;
    }

    /// One look of kubelet and agents at all pods.
    async fn serve(&self, dice: &mut StdRng, accidents: &mut u64) {
        let Ok(pods) = self.api::<Pod>().list(&ListParams::default()).await else { return };
        let threads = self.api::<Thread>().list(&ListParams::default()).await.unwrap();
        self.count(&threads.items);
        let threads: BTreeMap<String, Thread> =
            threads.into_iter().map(|t| (t.name_any(), t)).collect();
        for pod in pods {
            let name = pod.name_any();
            if pod.metadata.deletion_timestamp.is_some() {
                if dice.random_bool(0.5) {
                    let now = DeleteParams::default().grace_period(0);
                    let _ = self.api::<Pod>().delete(&name, &now).await;
                }
                continue;
            }
            let labels = pod.labels();
            let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
            let (thread, role) = (label(names::LABEL_THREAD), label(names::LABEL_ROLE));
            let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
            if phase == "Pending" {
                self.bind(&name).await;
                self.phase(&name, "Running").await;
                continue;
            }
            let status = threads.get(&thread).and_then(|t| t.status.as_ref());
            let own = status.and_then(|s| s.roles.get(&role));
            // Only the registered pod is served by the gateway.
            let registered =
                own.is_some_and(|own| own.pod_uid.is_some() && own.pod_uid == pod.uid());
            if phase != "Running" || !registered || dice.random_bool(0.5) {
                continue;
            }
            if *accidents > 0 && dice.random_bool(0.02) {
                *accidents -= 1;
                self.phase(&name, "Failed").await;
            } else if status.is_some_and(|s| s.wants(&role)) {
                let inbox = own.and_then(|own| own.inbox.as_ref()).map(ToString::to_string);
                let may_run = status.is_some_and(|s| s.may_run(&role, false));
                let runs = status.is_some_and(|s| s.is_running(&role));
                if runs {
                    self.role(&thread, &role, json!({"done": inbox, "state": "Idle"})).await;
                } else if may_run {
                    self.role(&thread, &role, json!({"state": "Running"})).await;
                }
            } else {
                self.phase(&name, "Succeeded").await;
            }
        }
    }

    /// One moment's slots: what a list shows was all true at once.
    fn count(&self, threads: &[Thread]) {
        let admitted = |thread: &Thread| {
            let roles = thread.status.iter().flat_map(|status| status.roles.values());
            roles.filter(|role| role.admitted).count()
        };
        let held: BTreeMap<String, usize> = threads
            .iter()
            .map(|thread| (thread.name_any(), admitted(thread)))
            .filter(|(_, roles)| *roles > 0)
            .collect();
        let runs = held.values().sum::<usize>();
        let within = held.len() <= THREADS && runs <= RUNS;
        assert!(within, "too much at once: {held:?}");
        self.most.fetch_max(runs, Ordering::SeqCst);
    }

    async fn bind(&self, pod: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": self.team},
            "target": {"kind": "Node", "name": "node"},
        });
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/binding", self.team);
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(binding.to_string().into_bytes())
            .unwrap();
        let _ = self.client.request_text(request).await;
    }
}

impl Team {
    pub(super) fn start(client: Client, seed: u64) -> Self {
        let clock = Arc::new(AtomicU64::new(1_767_268_700));
        let team = TEAM.to_owned();
        let world = World { client, team, marks: Arc::default(), clock, most: Arc::default() };
        let stop = CancellationToken::new();
        let (serving, stopping) = (world.clone(), stop.clone());
        let kubelet = tokio::spawn(async move {
            let mut dice = StdRng::seed_from_u64(seed);
            let mut accidents = ACCIDENTS;
            while !stopping.is_cancelled() {
                serving.serve(&mut dice, &mut accidents).await;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        });
        Self { world, stop, kubelet }
    }

    /// Fails if a limit was ever exceeded. Answers how many roles had a slot at once, at most.
    pub(super) async fn stop(self) -> usize {
        self.stop.cancel();
        self.kubelet.await.unwrap();
        self.world.most.load(Ordering::SeqCst)
    }

    pub(super) fn opened(&self) -> usize {
        self.world.marks().len()
    }

    fn one(&self, dice: &mut StdRng) -> Option<String> {
        let marks = self.world.marks();
        if marks.is_empty() {
            return None;
        }
        marks.keys().nth(dice.random_range(0..marks.len())).cloned()
    }

    /// Begins a thread as a user would.
    pub(super) async fn open(&self, dice: &mut StdRng) {
        if self.world.marks().len() >= MOST {
            return;
        }
        let ts = self.world.tick();
        let name = names::thread_name("shop", &ts.parse().unwrap());
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
            "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": ts}},
        }))
        .unwrap();
        self.world.api::<Thread>().create(&PostParams::default(), &thread).await.unwrap();
        self.world.marks().insert(name.clone(), BTreeMap::new());
        self.say(&name, ROLES[dice.random_range(0..ROLES.len())]).await;
    }

    async fn say(&self, thread: &str, role: &str) {
        let ts = self.world.tick();
        self.world.role(thread, role, json!({"inbox": ts})).await;
        if let Some(marks) = self.world.marks().get_mut(thread) {
            marks.insert(role.to_owned(), ts);
        }
    }

    /// A user writes in a thread.
    pub(super) async fn write(&self, dice: &mut StdRng) {
        let role = ROLES[dice.random_range(0..ROLES.len())];
        if let Some(thread) = self.one(dice) {
            self.say(&thread, role).await;
        }
    }

    /// A user writes in every open thread.
    pub(super) async fn write_to_all(&self) {
        let all: Vec<String> = self.world.marks().keys().cloned().collect();
        for thread in all {
            self.say(&thread, ROLES[0]).await;
        }
    }

    /// Ends a thread as a user would.
    pub(super) async fn close(&self, dice: &mut StdRng) {
        let Some(thread) = self.one(dice) else { return };
        self.world.marks().remove(&thread);
        let patch = Patch::Merge(json!({"spec": {"state": "Closed"}}));
        self.world.api::<Thread>().patch(&thread, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Somebody deletes a thread with kubectl.
    pub(super) async fn delete(&self, dice: &mut StdRng) {
        let Some(thread) = self.one(dice) else { return };
        self.world.marks().remove(&thread);
        let params = match dice.random_range(0..2) {
            0 => DeleteParams::background(),
            _ => DeleteParams::foreground(),
        };
        self.world.api::<Thread>().delete(&thread, &params).await.unwrap();
    }

    /// Somebody deletes what the controller made.
    pub(super) async fn vandalize(&self, dice: &mut StdRng) {
        let now = DeleteParams::default();
        match dice.random_range(0..4) {
            0 => drop(self.world.api::<ServiceAccount>().delete("codebutler-shop", &now).await),
            1 => drop(self.world.api::<NetworkPolicy>().delete("codebutler-shop", &now).await),
            2 => {
                let pods = self.world.api::<Pod>().list(&ListParams::default()).await.unwrap();
                if !pods.items.is_empty() {
                    let pod = pods.items[dice.random_range(0..pods.items.len())].name_any();
                    drop(self.world.api::<Pod>().delete(&pod, &now).await);
                }
            }
            _ => {
                if let Some(thread) = self.one(dice) {
                    drop(self.world.api::<PersistentVolumeClaim>().delete(&thread, &now).await);
                }
            }
        }
    }

    /// Waits until everything is as it should be, and says what is not. A volume that somebody took
    /// away is missed when it is needed next.
    pub(super) async fn settle(&self, within: Duration, volumes: bool, mut keep: impl FnMut()) {
        let deadline = Instant::now() + within;
        loop {
            keep();
            let wrong = self.wrong(volumes).await;
            if wrong.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still wrong:\n{}", wrong.join("\n"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn wrong(&self, volumes: bool) -> Vec<String> {
        let all = ListParams::default();
        let threads = self.world.api::<Thread>().list(&all).await.unwrap();
        let pods = self.world.api::<Pod>().list(&all).await.unwrap();
        let claims = self.world.api::<PersistentVolumeClaim>().list(&all).await.unwrap();
        let mut wrong = Vec::new();
        let marks = self.world.marks().clone();
        for (name, roles) in &marks {
            let Some(thread) = threads.iter().find(|t| t.name_any() == *name) else {
                wrong.push(format!("thread {name} is gone"));
                continue;
            };
            for (role, newest) in roles {
                let own = thread.status.as_ref().and_then(|s| s.roles.get(role));
                let inbox = own.and_then(|own| own.inbox.as_ref()).map(ToString::to_string);
                let done = own.and_then(|own| own.done.as_ref()).map(ToString::to_string);
                if inbox.as_ref() != Some(newest) {
                    wrong.push(format!("{name} {role}: mark {inbox:?} is not {newest}"));
                }
                if done.as_ref() != Some(newest) {
                    let conditions = thread.status.as_ref().map(|s| &s.conditions);
                    wrong.push(format!(
                        "{name} {role}: {newest} is not done ({done:?}): {conditions:?}"
                    ));
                }
            }
            if volumes && !claims.iter().any(|c| c.name_any() == *name) {
                wrong.push(format!("{name} has no volume"));
            }
        }
        let owner_of = |meta: &kube::api::ObjectMeta| {
            let owners = meta.owner_references.iter().flatten();
            let mut live = owners.filter_map(|o| {
                let owner = threads.iter().find(|t| t.uid().as_ref() == Some(&o.uid))?;
                (owner.spec.state == ThreadState::Active).then(|| owner.name_any())
            });
            live.next()
        };
        let orphans = pods.iter().map(|p| ("pod", &p.metadata));
        for (what, meta) in orphans.chain(claims.iter().map(|c| ("claim", &c.metadata))) {
            if owner_of(meta).is_none() {
                wrong.push(format!("{what} {:?} belongs to nobody", meta.name));
            }
        }
        for pod in &pods.items {
            wrong.push(format!("pod {} is awake with nothing to do", pod.name_any()));
        }
        for (what, found) in [
            (
                "account",
                self.world
                    .api::<ServiceAccount>()
                    .get_opt("codebutler-shop")
                    .await
                    .unwrap()
                    .is_some(),
            ),
            (
                "policy",
                self.world
                    .api::<NetworkPolicy>()
                    .get_opt("codebutler-shop")
                    .await
                    .unwrap()
                    .is_some(),
            ),
        ] {
            if !found {
                wrong.push(format!("the Repo's {what} is missing"));
            }
        }
        wrong
    }
}
