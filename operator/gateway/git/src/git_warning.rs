//! Warnings for the condition of a Repo whose Git remote works: what people should change all the same.

use codebutler_crds::Repo;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::github::moved;

use super::confine::GitConfinement;

/// Returns all warnings about a remote that works, if there are any.
pub(crate) fn find_warning(context: &GatewayContext, repo: &Repo) -> Option<String> {
    let unconfined = GitConfinement::current().remark().map(str::to_owned);
    let remarks = moved::moved_remark(context, repo).into_iter().chain(unconfined);
    let remarks: Vec<String> = remarks.collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
