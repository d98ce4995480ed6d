//! Remarks on a Repo's Git that works, for its condition: trouble that people should know of all the same.

use codebutler_crds::Repo;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::github::moved;

use super::confine::GitConfinement;

/// Returns a remark on a remote that works all the same, if there is one.
pub(crate) fn git_remark(context: &GatewayContext, repo: &Repo) -> Option<String> {
    let unconfined = GitConfinement::current().remark().map(str::to_owned);
    let remarks = moved::moved_remark(context, repo).into_iter().chain(unconfined);
    let remarks: Vec<String> = remarks.collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
