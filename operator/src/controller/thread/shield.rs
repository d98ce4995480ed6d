//! What keeps an autoscaler from taking a node away under a pod: up while a role works, down while it
//! waits for the next message.

use std::collections::BTreeMap;

use codebutler_crds::Thread;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;

use super::desired::{View, id, role_of};
use super::life::Life;
use super::plan::{Plan, PodId};
use crate::apply::ApplyError;
use crate::controller::context::Context;
use crate::controller::index::Key;

/// Cluster-autoscaler's; pods with folders of the node's disk keep their node without it.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Whether autoscalers are to leave a pod alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Shield {
    Up,
    /// It may go: its role has nothing to do.
    Down,
}

/// A pod whose annotations say something else than they should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub pod: PodId,
    pub shield: Shield,
}

impl Shield {
    /// As a pod has it.
    pub fn annotations(self) -> BTreeMap<String, String> {
        let value = |yes: bool| yes.to_string();
        [
            (SAFE_TO_EVICT.to_owned(), value(self == Self::Down)),
            (DO_NOT_DISRUPT.to_owned(), value(self == Self::Up)),
        ]
        .into()
    }

    fn is_on(self, pod: &Pod) -> bool {
        let annotations = pod.annotations();
        self.annotations().iter().all(|(key, value)| annotations.get(key) == Some(value))
    }
}

/// Whose shield is to change.
pub fn look(view: &View, plan: &mut Plan) {
    for pod in &view.observed.pods {
        let (role, pod_id) = (role_of(view.thread, pod), id(pod));
        if !Life::of(pod).is_live() || plan.delete_pods.contains(&pod_id) {
            continue;
        }
        let works = view.status.is_running(&role) || view.status.wants(&role);
        let shield = if works { Shield::Up } else { Shield::Down };
        if !shield.is_on(pod) {
            plan.shields.push(Change { pod: pod_id, shield });
        }
    }
}

/// Carries it out. A pod that has gone meanwhile needs none.
pub async fn change(thread: &Thread, plan: &Plan, context: &Context) -> Result<(), ApplyError> {
    for pod in context.pods.of(&Key::of(thread)) {
        let wanted = plan.shields.iter().find(|change| Some(&change.pod.uid) == pod.uid().as_ref());
        let Some(wanted) = wanted else { continue };
        match context.apply.annotate(&*pod, &wanted.shield.annotations()).await {
            Ok(()) | Err(ApplyError::Stale { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
