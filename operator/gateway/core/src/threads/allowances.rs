//! Takes back what people have allowed for the rest of a Thread. Pure.

use codebutler_crds::ThreadStatus;
use codebutler_crds::mcp::ThreadMcpServer;

/// Takes back all that people allowed for a whole Thread: actions, tools of the company's servers, images.
pub fn revoke_allowances(status: &mut ThreadStatus) {
    revoke_where(status, |_| true);
}

/// Takes back all that one of them allowed, who may not decide any more.
pub fn revoke_allowances_of(status: &mut ThreadStatus, giver: &str) {
    revoke_where(status, |by| by == Some(giver));
}

/// `is_over` hears who gave it, as far as that is on record.
fn revoke_where(status: &mut ThreadStatus, is_over: impl Fn(Option<&str>) -> bool) {
    status.standing.retain(|one| !is_over(Some(&one.by)));
    for server in status.mcp.iter_mut().flat_map(|mcp| mcp.servers.values_mut()) {
        let ThreadMcpServer { allowed, allowed_by, .. } = server;
        allowed.retain(|mark| !is_over(allowed_by.get(mark).map(String::as_str)));
        allowed_by.retain(|mark, _| allowed.contains(mark));
    }
    if let Some(images) = &mut status.images {
        images.allowed_by = images.allowed_by.take().filter(|by| !is_over(Some(by)));
    }
}
