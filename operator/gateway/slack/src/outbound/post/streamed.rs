//! Identity of a message while it is a stream, which has no metadata before its end: the names of the tasks in
//! it. Pure.

use serde_json::Value;

use super::identity::MessageIdentity;
use super::{PROGRESS, own_kind};
use crate::api::stored_message::StoredMessage;

/// Key of the message that shows a run.
pub(crate) fn run_key(run: &str) -> String {
    format!("{PROGRESS}.{run}")
}

/// Id of a task: it says whose run the message shows.
pub(crate) fn task_id(role: &str, run: &str, number: u32) -> String {
    format!("{PROGRESS}:{run}:{role}:{number}")
}

/// Identity of a message of ours that is a stream, or was one whose end nobody told Slack.
pub(super) fn streamed_identity(blocks: Option<&Value>) -> Option<MessageIdentity> {
    let blocks = blocks?.as_array()?;
    let tasks = blocks.iter().flat_map(|block| {
        let inside = block["tasks"].as_array().into_iter().flatten();
        inside.chain(std::iter::once(block))
    });
    let named = tasks.filter_map(|task| task["task_id"].as_str()).find_map(read_task);
    named.map(|(run, role)| MessageIdentity::of(role, PROGRESS, &run_key(run)))
}

fn read_task(id: &str) -> Option<(&str, &str)> {
    let mut parts = id.strip_prefix(PROGRESS)?.strip_prefix(':')?.split(':');
    Some((parts.next()?, parts.next()?))
}

/// True if a message of ours only shows what a run does: no role reads it.
pub(crate) fn shows_run(stored: &StoredMessage) -> bool {
    own_kind(stored) == Some(PROGRESS)
        || (stored.metadata.is_none() && streamed_identity(stored.blocks.as_ref()).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stream_is_known_by_its_tasks() {
        let id = task_id("coder", "0a1b", 3);
        let task = json!({"task_id": id, "title": "Bash", "status": "in_progress"});
        let plan = json!([{"type": "markdown", "text": "hi"}, {"type": "plan", "tasks": [task]}]);
        let expected = MessageIdentity::of("coder", PROGRESS, "progress.0a1b");
        assert_eq!(streamed_identity(Some(&plan)), Some(expected.clone()));
        let mut card = task;
        card["type"] = json!("task_card");
        assert_eq!(streamed_identity(Some(&json!([card]))), Some(expected));
        for other in [json!([{"task_id": "1"}]), json!([{"task_id": "progress:1"}]), json!({})] {
            assert_eq!(streamed_identity(Some(&other)), None, "{other}");
        }
    }
}
