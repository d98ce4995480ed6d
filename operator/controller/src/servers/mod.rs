//! Pods of the servers of `spec.mcpServers`: made when the gateway wants one, deleted when it has been idle, when its
//! Thread closes, and when the Repo names it no more, or otherwise.
//!
//! A look at a Thread or a Repo ends here, when all else about it is done.

mod decide;
mod pod;
mod standing;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::mcp::McpPod;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, Thread};
use codebutler_runtime::apply::{AppliedObject, ApplyError, MadeObject, owned_by};
use codebutler_runtime::notice::EventNotice;
use codebutler_runtime::queue::FollowUp;
use codebutler_runtime::shards::GatewayShard;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use self::decide::{ServersPlan, ServersView, plan_servers};
use self::pod::ServerOwner;
use super::context::ControllerContext;
use super::fence::CachedSight;
use super::index::ObjectKey;
use super::refusals::describe_server_refusal;
use super::thread::{reconcile_thread, volume};
use super::{repo, thread};

/// Delay before a refused pod is retried. A timer is needed because the cause is not watched.
const RETRY_REFUSED: Duration = Duration::from_secs(15);

/// A look at a Thread, and then at its servers.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(crate) async fn look_at_thread(
    thread: Arc<Thread>,
    context: Arc<ControllerContext>,
) -> Result<FollowUp, ApplyError> {
    let follow = Box::pin(reconcile_thread(Arc::clone(&thread), Arc::clone(&context))).await?;
    let key = ObjectKey::of(&*thread);
    let has_pods = !context.server_pods.of(&key).is_empty();
    let known = known_servers(&thread);
    if known.is_empty() && !has_pods {
        return Ok(follow);
    }
    if context.fence.look(&thread) != CachedSight::Current {
        // The cache shows a Thread from before the last write: the next look, on the new one, goes on here.
        return Ok(follow);
    }
    let found = context.repo(&key.namespace, &thread.spec.repo);
    let claim = thread::observe::own_claim(&context, &thread);
    let open = thread.spec.state == ThreadState::Active && !thread.is_going();
    let tended = ServersInput {
        owner: ServerOwner::Thread(&thread),
        repo: found.as_deref(),
        open,
        user: volume::find_user(claim.as_deref()),
        known,
        uid: thread.uid().unwrap_or_default(),
        pods: context.server_pods.of(&key),
    };
    let (plan, again) = tended.tend(&context, &*thread).await?;
    let place = |own| json!({"pod": own});
    if let Some(servers) = plan.patch(&tended.known, place) {
        let patch = json!({"mcp": {"servers": servers}});
        let version = context.apply.status(&*thread, &patch).await?;
        context.fence.wrote(&thread, version.as_deref());
    }
    Ok(join(follow, again))
}

/// A look at a Repo, and then at its own servers.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(crate) async fn look_at_repo(
    repo: Arc<Repo>,
    context: Arc<ControllerContext>,
) -> Result<FollowUp, ApplyError> {
    let follow = Box::pin(repo::reconcile_repo(Arc::clone(&repo), Arc::clone(&context))).await?;
    let known = repo.status.as_ref().map(|status| status.mcp_pods.clone()).unwrap_or_default();
    let pods = context.repo_server_pods.of(&ObjectKey::of(&*repo));
    if known.is_empty() && pods.is_empty() {
        return Ok(follow);
    }
    let tended = ServersInput {
        owner: ServerOwner::Repo(&repo),
        repo: Some(&repo),
        open: repo.metadata.deletion_timestamp.is_none(),
        user: volume::find_user(None),
        known,
        uid: repo.uid().unwrap_or_default(),
        pods,
    };
    let (plan, again) = tended.tend(&context, &*repo).await?;
    if let Some(servers) = plan.patch(&tended.known, std::convert::identity) {
        context.apply.status(&*repo, &json!({"mcpPods": servers})).await?;
    }
    Ok(join(follow, again))
}

fn known_servers(thread: &Thread) -> BTreeMap<String, McpPod> {
    let status = thread.status.as_ref().and_then(|status| status.mcp.as_ref());
    let servers = status.into_iter().flat_map(|mcp| &mcp.servers);
    servers.filter_map(|(name, known)| Some((name.clone(), known.pod.clone()?))).collect()
}

/// Keeps the earlier of the two times for the next look.
fn join(follow: FollowUp, again: Option<Duration>) -> FollowUp {
    let after = follow.after.into_iter().chain(again).min();
    FollowUp { after, ..follow }
}

/// Inputs for a look at the servers of a Thread or Repo.
struct ServersInput<'a> {
    owner: ServerOwner<'a>,
    repo: Option<&'a Repo>,
    open: bool,
    user: i64,
    known: BTreeMap<String, McpPod>,
    uid: String,
    pods: Vec<Arc<Pod>>,
}

impl ServersInput<'_> {
    /// Deletes and creates pods. The plan is what the status has to say then.
    async fn tend<K: AppliedObject>(
        &self,
        context: &ControllerContext,
        owner: &K,
    ) -> Result<(ServersPlan, Option<Duration>), ApplyError> {
        let pods: Vec<_> =
            self.pods.iter().filter(|pod| owned_by(&***pod, &self.uid)).cloned().collect();
        let mut refused = BTreeMap::new();
        let mut plan = self.decide(context, &pods);
        for pod in &pods {
            if pod.uid().is_some_and(|uid| plan.delete.contains(&uid)) {
                context.apply.delete::<Pod>(pod).await?;
            }
        }
        for (server, pod) in std::mem::take(&mut plan.create) {
            match context.apply.create(&pod, &self.uid).await {
                Ok(MadeObject::New(made)) => {
                    self.assume(context, &made);
                    plan.own.entry(server.clone()).or_default().pod_uid = made.uid();
                    let note = format!("pod `{}` of server `{server}` made", made.name_any());
                    let notice = EventNotice::normal("McpServerStarted", note);
                    context
                        .apply
                        .tell(&owner.object_ref(&()), Some(&made.object_ref(&())), &notice)
                        .await;
                }
                // A pod that exists but is not in the watch has lost its labels, and with them its network policy.
                Ok(MadeObject::Found(found)) => context.apply.delete::<Pod>(&found).await?,
                Err(ApplyError::Refused(refusal)) => {
                    let patterns = self.repo.map(|repo| repo.spec.policy.redaction.as_slice());
                    let patterns = patterns.unwrap_or_default();
                    let why = describe_server_refusal(&refusal, patterns, &server);
                    refused.insert(server, why);
                }
                Err(error) => return Err(error),
            }
        }
        if refused.is_empty() {
            let again = plan.again;
            return Ok((plan, again));
        }
        for (server, why) in refused {
            tracing::warn!(server, why, "server_pod_refused");
            plan.own.entry(server).or_default().trouble = why;
        }
        let again = plan.again.map_or(RETRY_REFUSED, |again| again.min(RETRY_REFUSED));
        Ok((plan, Some(again)))
    }

    fn decide(&self, context: &ControllerContext, pods: &[Arc<Pod>]) -> ServersPlan {
        let gateway = match self.repo {
            Some(found) => context.gateway_of(found),
            None => context.gateway(GatewayShard::default()),
        };
        plan_servers(&ServersView {
            owner: self.owner,
            repo: self.repo,
            open: self.open,
            known: &self.known,
            pods,
            gateway: gateway.as_ref(),
            prepared: self.repo.is_some_and(|found| repo::observe::is_prepared(context, found)),
            args: &context.args,
            user: self.user,
            now: context.clock.now(),
        })
    }

    fn assume(&self, context: &ControllerContext, made: &Pod) {
        match self.owner {
            ServerOwner::Thread(_) => context.server_pods.assume(made),
            ServerOwner::Repo(_) => context.repo_server_pods.assume(made),
        }
    }
}
