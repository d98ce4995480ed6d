//! Read cursor of a Repo's channel: the last message read, behind which the next sweep begins.

use codebutler_crds::{Repo, SlackTs};
use codebutler_gateway_core::writes;
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use serde_json::json;

const ATTEMPTS: usize = 5;

/// Moves the cursor on; never back.
///
/// # Errors
/// When it can't be written.
pub(crate) async fn advance_cursor(
    client: &kube::Client,
    place: (&str, &str),
    to: &SlackTs,
) -> Result<(), kube::Error> {
    move_cursor(client, place, to, |at| at.is_none_or(|at| at < to)).await
}

/// Sets the cursor of a Repo that has read nothing yet, so that messages from before its time are not read.
///
/// # Errors
/// When it can't be written.
pub(crate) async fn begin_cursor(
    client: &kube::Client,
    place: (&str, &str),
    from: &SlackTs,
) -> Result<(), kube::Error> {
    move_cursor(client, place, from, |at| at.is_none()).await
}

async fn move_cursor(
    client: &kube::Client,
    (namespace, name): (&str, &str),
    to: &SlackTs,
    wanted: impl Fn(Option<&SlackTs>) -> bool,
) -> Result<(), kube::Error> {
    let api: Api<Repo> = Api::namespaced(client.clone(), namespace);
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some(current) = api.get_opt(name).await? else { return Ok(()) };
        if !wanted(current.status.as_ref().and_then(|status| status.slack.cursor.as_ref())) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"resourceVersion": current.resource_version()},
            "status": {"slack": {"cursor": to}},
        });
        match api.patch_status(name, &writes::patch_params(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                last = Some(kube::Error::Api(status));
            }
            Err(error) => return Err(error),
        }
    }
    last.map_or(Ok(()), Err)
}
