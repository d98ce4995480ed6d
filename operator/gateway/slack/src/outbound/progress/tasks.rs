//! The steps of a run as the tasks of a stream. Pure.

use serde_json::{Value, json};

use crate::outbound::post;

/// Step that an agent reports while its model thinks: the next one takes its place.
const THINKING: &str = "thinking";
/// Most tasks in one message, of which Slack takes fifty; the last of them shows what comes after.
const MOST: u32 = 30;

/// The tasks that a stream shows.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskList {
    number: u32,
    /// Title of the task that is under way.
    title: Option<String>,
}

impl TaskList {
    /// Chunks by which a stream says what is done now.
    pub(super) fn go_on(&mut self, (role, run): (&str, &str), title: &str) -> Vec<Value> {
        let mut chunks = Vec::new();
        let before = self.title.replace(title.to_owned());
        match before {
            Some(before) if before == title => return chunks,
            // The step before came to nothing that would be worth a line.
            Some(before) if before == THINKING || self.number >= MOST => {}
            Some(before) => {
                chunks.push(task(role, run, self.number, (&before, "complete")));
                self.number += 1;
            }
            None => self.number = 1,
        }
        chunks.push(task(role, run, self.number, (title, "in_progress")));
        chunks
    }
}

fn task(role: &str, run: &str, number: u32, (title, status): (&str, &str)) -> Value {
    let id = post::task_id(role, run, number);
    json!({"type": "task_update", "id": id, "title": title, "status": status})
}

/// Chunk that titles the tasks.
pub(super) fn plan_title(title: &str) -> Value {
    json!({"type": "plan_update", "title": title})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_a_task_and_thinking_is_none_that_stays() {
        let mut list = TaskList::default();
        let mut says = |title: &str| {
            let chunks = list.go_on(("coder", "0a"), title);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let line = |c: &Value| {
                format!("{} {} {}", text(&c["id"]), text(&c["title"]), text(&c["status"]))
            };
            chunks.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(says("thinking"), ["progress:0a:coder:1 thinking in_progress"]);
        assert_eq!(says("Read a.rs"), ["progress:0a:coder:1 Read a.rs in_progress"]);
        assert_eq!(says("Read a.rs"), Vec::<String>::new());
        assert_eq!(
            says("thinking"),
            ["progress:0a:coder:1 Read a.rs complete", "progress:0a:coder:2 thinking in_progress"]
        );
        for n in 0..100 {
            says(&format!("step {n}"));
        }
        assert_eq!(says("the end"), ["progress:0a:coder:30 the end in_progress"]);
    }
}
