//! Handovers in a role's message: decided once, before it is posted, and written beside it, so that whoever
//! reads or records it later comes to the same.

use codebutler_crds::ThreadStatus;
use codebutler_gateway_core::dispatch::{RepoTeam, rounds};
use serde_json::{Value, json};

use crate::text::address;

/// Addressees of the parts of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileHanding {
    /// Roles that each part is for; empty for a message of no role.
    to: Vec<Vec<String>>,
    /// Role that was addressed and does not go on: somebody else is asked first.
    held: Option<String>,
}

impl FileHanding {
    /// `last`: the sender's run ends with it.
    pub(crate) fn of(
        parts: &[String],
        team: &RepoTeam,
        status: &ThreadStatus,
        sender: &str,
        last: bool,
    ) -> Self {
        let read = |last| {
            let of = |part: &String| address::by_role(part, &team.roles, sender, last);
            parts.iter().map(of).collect::<Vec<_>>()
        };
        let plain = read(false);
        let to = if last && plain.iter().all(Vec::is_empty) { read(true) } else { plain };
        let first = to.iter().flatten().next();
        let empty = parts.iter().all(|part| rounds::says_nothing(part));
        let held = first.filter(|first| {
            rounds::lead_instead(team, status, sender, first).is_some()
                || (empty && rounds::is_idle(status, sender, first))
        });
        match held.cloned() {
            Some(held) => Self { to: vec![Vec::new(); parts.len()], held: Some(held) },
            None => Self { to, held: None },
        }
    }

    /// Names all roles that the message addresses.
    pub(crate) fn names(&self) -> Vec<String> {
        self.to.iter().flatten().chain(&self.held).cloned().collect()
    }

    /// Adds the addressees of a part to a message's metadata.
    pub(crate) fn write(&self, part: usize, payload: &mut Value) {
        if let Some(to) = self.to.get(part) {
            payload["to"] = json!(to.join(","));
        }
        if let Some(held) = &self.held {
            payload["held"] = json!(held);
        }
    }

    pub(super) fn part(&self, part: usize) -> (Option<Vec<String>>, Option<String>) {
        (self.to.get(part).cloned(), self.held.clone())
    }
}

/// Reads the addressees back; `None` for a message that says nothing about them.
pub(crate) fn read_addressed(payload: &Value) -> Option<Vec<String>> {
    let to = payload["to"].as_str()?;
    Some(to.split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect())
}

pub(super) fn read_held(payload: &Value) -> Option<String> {
    payload["held"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::HandoverRounds;

    use super::*;

    fn team() -> RepoTeam {
        let roles = ["pm", "coder", "reviewer", "lead"].map(str::to_owned).to_vec();
        RepoTeam { leads: Some("lead".into()), roles, ..RepoTeam::default() }
    }

    #[test]
    fn what_is_written_beside_a_message_is_read_back() {
        let (team, status) = (team(), ThreadStatus::default());
        let parts = ["Done.".to_owned(), "@codebutler.reviewer look\n@codebutler.pm".to_owned()];
        let handing = FileHanding::of(&parts, &team, &status, "coder", true);
        let mut payload = json!({});
        assert_eq!(read_addressed(&payload), None);
        handing.write(1, &mut payload);
        assert_eq!(read_addressed(&payload).unwrap(), ["reviewer", "pm"]);
        handing.write(0, &mut payload);
        assert_eq!((read_addressed(&payload).unwrap(), read_held(&payload)), (Vec::new(), None));
        // The middle of a line counts at the end of a run only, and only where nothing else does.
        let midway = ["The price is right, over to @codebutler.reviewer".to_owned()];
        let to = |last| FileHanding::of(&midway, &team, &status, "coder", last).part(0).0.unwrap();
        assert_eq!((to(true), to(false)), (vec!["reviewer".to_owned()], Vec::new()));
    }

    #[test]
    fn after_some_rounds_the_other_one_does_not_go_on() {
        let rounds = HandoverRounds {
            from: "coder".into(),
            to: "reviewer".into(),
            ts: "5.000000".parse().unwrap(),
            before: None,
            times: 6,
            idle: 0,
        };
        let status = ThreadStatus { rounds: Some(Box::new(rounds)), ..ThreadStatus::default() };
        let parts = ["@codebutler.coder again".to_owned()];
        let handing = FileHanding::of(&parts, &team(), &status, "reviewer", true);
        let mut payload = json!({});
        handing.write(0, &mut payload);
        assert_eq!(read_addressed(&payload).unwrap(), Vec::<String>::new());
        assert_eq!(read_held(&payload).as_deref(), Some("coder"));
    }
}
