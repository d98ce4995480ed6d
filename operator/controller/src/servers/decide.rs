//! Decides which pods of servers there are to be. Pure: no clock, no network, no cache.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::mcp::{McpPod, McpScope, McpServerSpec, McpWorktree};
use codebutler_crds::{Repo, names};
use codebutler_runtime::server_spec::{NO_ROOM, fingerprint_server};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::pod::{ANNOTATION_CONFIG, ANNOTATION_SECRETS, ServerOwner, ServerPodInput};
use super::standing::{is_ready, tell_trouble, tell_wait};
use crate::args::ControllerArgs;
use crate::gateway::{GatewayAddress, GatewayNotFound};
use crate::labels;
use crate::pod_life::PodLife;

/// Pods of servers that a Thread has at once, and a Repo of its own.
pub(super) const MOST_PODS: usize = 8;
/// Interval between looks at a pod that does not work yet: some trouble shows only after a while.
const LOOK: Duration = Duration::from_secs(5);
/// Delay before the next pod after one that has ended. A node that turns pods down would do so with many a second.
const AFTER_FAILURE: SignedDuration = SignedDuration::from_secs(5);

/// Everything that is known about the servers of a Thread, or of a Repo.
pub(super) struct ServersView<'a> {
    /// The Thread or Repo that the servers belong to.
    pub owner: ServerOwner<'a>,
    /// The Repo that names them; none if it is gone.
    pub repo: Option<&'a Repo>,
    /// False once the owner is closed, or goes.
    pub open: bool,
    /// Status of the servers so far, as gateway and controller wrote it.
    pub known: &'a BTreeMap<String, McpPod>,
    /// The owner's pods of servers.
    pub pods: &'a [Arc<Pod>],
    /// The gateway's address; the error says what is wrong.
    pub gateway: Result<&'a GatewayAddress, &'a GatewayNotFound>,
    /// True once the Repo's account, network policy and certificate authority are there.
    pub prepared: bool,
    /// The installation's settings.
    pub args: &'a ControllerArgs,
    /// User id of pods where nobody sets another one.
    pub user: i64,
    /// The moment of the decision.
    pub now: Timestamp,
}

/// Steps to take for the servers.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct ServersPlan {
    /// Pods to create, by server.
    pub create: BTreeMap<String, Pod>,
    /// UIDs of the pods to delete.
    pub delete: Vec<String>,
    /// The controller's part of each server's status.
    pub own: BTreeMap<String, OwnPod>,
    /// Look again after this long, if nothing happens before.
    pub again: Option<Duration>,
}

/// The controller's part of a server's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct OwnPod {
    /// The pod that speaks for the server.
    pub pod_uid: Option<String>,
    /// Reason why the server does not work, shown to people.
    pub trouble: String,
    /// Reason why its start takes long, shown to people.
    pub waits: String,
}

impl OwnPod {
    fn of(pod: &McpPod) -> Self {
        let McpPod { pod_uid, trouble, waits, .. } = pod.clone();
        Self { pod_uid, trouble, waits }
    }

    /// Status of a server without a pod that speaks for it yet.
    fn waiting(waits: &str) -> Self {
        Self { waits: waits.to_owned(), ..Self::default() }
    }
}

impl ServersPlan {
    /// The merge patch of the map of servers, where anything of it changes. `at` puts a server's part where it
    /// belongs.
    pub(super) fn patch(
        &self,
        known: &BTreeMap<String, McpPod>,
        at: fn(Value) -> Value,
    ) -> Option<Value> {
        let mut patch = Map::new();
        for (name, own) in &self.own {
            let before = known.get(name).map(OwnPod::of).unwrap_or_default();
            let mut changed = Map::new();
            if own.pod_uid != before.pod_uid {
                changed.insert("podUID".to_owned(), json!(own.pod_uid));
            }
            for (field, words, said) in
                [("trouble", &own.trouble, &before.trouble), ("waits", &own.waits, &before.waits)]
            {
                if words != said {
                    let words = Some(words).filter(|words| !words.is_empty());
                    changed.insert(field.to_owned(), json!(words));
                }
            }
            if !changed.is_empty() {
                patch.insert(name.clone(), at(Value::Object(changed)));
            }
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    fn look_again_in(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// Decides what to do about the servers of `view.owner`.
pub(super) fn plan_servers(view: &ServersView) -> ServersPlan {
    let mut plan = ServersPlan::default();
    let wanted: Vec<_> = servers_of(view).filter_map(|server| find_want(view, server)).collect();
    let owner = view.owner.name();
    for pod in view.pods {
        let name = pod.name_any();
        let server = names::server_of_pod(&owner, &name);
        let is_wanted = server.is_some_and(|name| wanted.iter().any(|(s, _)| s.name == name));
        if !is_wanted && pod.metadata.deletion_timestamp.is_none() {
            plan.delete.extend(pod.uid());
        }
    }
    for name in view.known.keys() {
        // A server that nobody wants has no pod that could speak for it, but the reason of its last trouble stays
        // readable.
        let known = view.known.get(name).map(OwnPod::of).unwrap_or_default();
        plan.own.insert(name.clone(), OwnPod { pod_uid: None, waits: String::new(), ..known });
    }
    let mut room = MOST_PODS;
    for (server, left) in wanted {
        plan.look_again_in(left);
        let own = plan_server(view, server, &mut room, &mut plan);
        plan.own.insert(server.name.clone(), own);
    }
    plan
}

fn servers_of<'a>(view: &ServersView<'a>) -> impl Iterator<Item = &'a McpServerSpec> {
    let servers = view.repo.into_iter().flat_map(|repo| &repo.spec.mcp_servers);
    let of_thread = matches!(view.owner, ServerOwner::Thread(_));
    // A Repo has pods of all of them: what a server offers is asked without a Thread.
    servers.filter(move |s| s.image.is_some() && (!of_thread || s.scope == McpScope::Thread))
}

/// A server that is wanted, and how long still.
fn find_want<'a>(
    view: &ServersView,
    server: &'a McpServerSpec,
) -> Option<(&'a McpServerSpec, Duration)> {
    let known = view.known.get(&server.name).filter(|_| view.open)?;
    let until = known.wanted.as_ref()?.0 + SignedDuration::from_secs(server.idle_seconds.into());
    let left = Duration::try_from(until.duration_since(view.now)).ok()?;
    // The Secrets of the entry's earlier form were checked, so another form is not started with them.
    (known.spec == fingerprint_server(server) && !left.is_zero()).then_some((server, left))
}

fn plan_server(
    view: &ServersView,
    server: &McpServerSpec,
    room: &mut usize,
    plan: &mut ServersPlan,
) -> OwnPod {
    let trouble = |trouble: String| OwnPod { trouble, ..OwnPod::default() };
    let (Some(repo), Ok(gateway)) = (view.repo, view.gateway) else {
        return trouble(view.gateway.err().map(ToString::to_string).unwrap_or_default());
    };
    let Some(left) = room.checked_sub(1) else {
        return trouble(format!(
            "{MOST_PODS} {NO_ROOM}, and server `{}` gets none: lower their idleSeconds, or wait \
             until one of them is idle",
            server.name
        ));
    };
    *room = left;
    let (owner, args, user) = (view.owner, view.args, view.user);
    let secrets = view.known.get(&server.name).map_or("", |known| &known.secrets);
    let input = ServerPodInput { owner, repo, server, secrets, gateway, args, user };
    let name = names::mcp_pod_name(&owner.name(), &server.name);
    let Some(pod) = view.pods.iter().find(|pod| pod.name_any() == name) else {
        if !has_worktree(view.owner, server) {
            plan.look_again_in(LOOK);
            return OwnPod::waiting("no role has cloned the repository into its worktree yet");
        }
        if view.prepared {
            plan.create.insert(server.name.clone(), input.build());
            return OwnPod::default();
        }
        return OwnPod::waiting("the Repo's account and network policy are being made");
    };
    let life = PodLife::of(pod);
    if life == PodLife::Ending {
        return OwnPod::default();
    }
    let config = pod.annotations().get(ANNOTATION_CONFIG);
    let made = input.build();
    let changed = config != Some(&input.config())
        || labels::lacks_labels(&**pod, made.labels())
        || has_old_secrets(pod, secrets);
    if !changed && let Some((left, why)) = time_to_rest(&life, view.now) {
        plan.look_again_in(left);
        return OwnPod::waiting(&format!("its pod has ended ({why}), and another one follows"));
    }
    if changed || !life.is_live() {
        plan.delete.extend(pod.uid());
        return OwnPod::default();
    }
    if !is_ready(pod) {
        plan.look_again_in(LOOK);
    }
    let trouble = tell_trouble(pod, &server.name, view.now).unwrap_or_default();
    let waits = tell_wait(pod, view.now).filter(|_| trouble.is_empty()).unwrap_or_default();
    OwnPod { pod_uid: pod.uid(), trouble, waits }
}

/// Time until a pod that has failed is replaced, and why it has.
fn time_to_rest(life: &PodLife, now: Timestamp) -> Option<(Duration, &str)> {
    let PodLife::Failed { at, why, .. } = life else { return None };
    let due = at.saturating_add(AFTER_FAILURE).unwrap_or(now);
    let left = Duration::try_from(due.duration_since(now)).ok()?;
    (!left.is_zero()).then_some((left, why.as_str()))
}

/// True for a pod that was started with other values of its Secrets than those that the gateway has seen since. An
/// older gateway names none.
fn has_old_secrets(pod: &Pod, secrets: &str) -> bool {
    let started = pod.annotations().get(ANNOTATION_SECRETS).map_or("", String::as_str);
    !secrets.is_empty() && started != secrets
}

/// False where a server is to read a worktree that no role has cloned yet. The clone is put in place of an empty
/// folder, which a pod that was there before would go on seeing.
fn has_worktree(owner: ServerOwner<'_>, server: &McpServerSpec) -> bool {
    let (ServerOwner::Thread(thread), Some(McpWorktree::ReadOnly)) = (owner, server.worktree)
    else {
        return true;
    };
    let mut roles = thread.status.iter().flat_map(|status| status.roles.values());
    // A run clones before it asks its model.
    roles.any(|role| role.turns > 0)
}
