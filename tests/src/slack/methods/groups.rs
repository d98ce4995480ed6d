//! `usergroups.*`.

use serde_json::json;

use super::super::SlackServer;
use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodReply, answer_ok, fail_with};

pub(super) fn list_users(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    match core.groups.get(&args.need("usergroup")?) {
        Some(users) => answer_ok(json!({ "users": users })),
        None => fail_with("no_such_subteam"),
    }
}

impl SlackServer {
    /// A user group (`S…`) has these members from now on.
    pub fn set_group(&self, id: &str, users: &[&String]) {
        let users = users.iter().map(|user| (*user).clone()).collect();
        self.inner.update(|core| core.groups.insert(id.to_owned(), users));
    }
}
