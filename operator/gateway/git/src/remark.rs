//! What people should know of a Repo's Git that works all the same, beside its condition.

use codebutler_crds::Repo;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::github::moved;

use super::confine::GitConfinement;

/// What somebody should know of a remote that works all the same.
pub(crate) fn git_remark(context: &GatewayContext, repo: &Repo) -> Option<String> {
    let unconfined = GitConfinement::current().remark().map(str::to_owned);
    let remarks = moved::moved_remark(context, repo).into_iter().chain(unconfined);
    let remarks: Vec<String> = remarks.collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
