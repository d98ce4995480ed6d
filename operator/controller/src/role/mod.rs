//! AgentRoles: their fields are checked, and their conditions say what is wrong.

mod desired;

use std::sync::Arc;

use codebutler_crds::AgentRole;
use codebutler_runtime::apply::ApplyError;
use codebutler_runtime::queue::FollowUp;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};

use super::context::ControllerContext;

/// Looks at an AgentRole and says what is wrong with it.
///
/// # Errors
/// When the status could not be written.
pub(crate) async fn reconcile_role(
    role: Arc<AgentRole>,
    context: Arc<ControllerContext>,
) -> Result<FollowUp, ApplyError> {
    let prompt = desired::read_prompt(&role, |name| {
        let namespace = role.namespace().unwrap_or_default();
        context.prompts.get(&ObjectRef::new(name).within(&namespace))
    });
    let plan = desired::plan_role(&role, prompt, context.clock.now());
    if let Some(patch) = plan.patch(role.status.as_ref()) {
        context.apply.status(&*role, &patch).await?;
    }
    for notice in &plan.notices {
        context.apply.tell(&role.object_ref(&()), None, notice).await;
    }
    Ok(FollowUp::await_change())
}
