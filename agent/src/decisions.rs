//! The decision log: what the harness decided for a role, out of what, and why. One JSON object a
//! line beside the transcript, append-only. It is for people; nothing is decided from it, so a line
//! that a crash cut off is dropped and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedKind {
    /// A plan follows a workflow.
    Workflow,
    /// A message asks for a skill, or one is suggested.
    Skill,
    Model,
    /// The run repeats itself without progress.
    Stuck,
    /// Something that others see is done.
    Visible,
    /// Something hard to undo was asked for.
    Approval,
    /// A limit or a person ended the run.
    Ended,
    /// A check of the pushed commit.
    Receipt,
    /// Something is pushed that the approved plan does not name.
    Deviation,
    /// The conversation was longer than the model can be shown.
    Compacted,
    /// Something to be remembered was proposed, or landed.
    Learning,
    /// A review has reached a step.
    Review,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedDecision {
    /// Time of the decision, in seconds since 1970.
    pub at: u64,
    pub run: String,
    pub kind: LoggedKind,
    pub chosen: String,
    /// Options that were not chosen.
    #[serde(default)]
    pub alternatives: Vec<String>,
    pub evidence: String,
}

#[derive(Debug)]
pub struct DecisionLog(File);

impl DecisionLog {
    /// Opens `<state>/<role>/decisions.jsonl`, made if absent; the folder exists.
    pub fn open(state_dir: &Path, role: &str) -> io::Result<Self> {
        let path = state_dir.join(role).join("decisions.jsonl");
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
        }
        Ok(Self(file))
    }

    /// The same log for a conversation that runs beside others.
    pub fn shared(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Appends a line. A log that can't be written stops nobody.
    pub fn note(
        &mut self,
        run: &str,
        kind: LoggedKind,
        chosen: &str,
        alternatives: &[&str],
        evidence: &str,
    ) {
        tracing::info!(run, ?kind, chosen, "decision_made");
        let decision = LoggedDecision {
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            run: run.to_owned(),
            kind,
            chosen: chosen.to_owned(),
            alternatives: alternatives.iter().map(|text| (*text).to_owned()).collect(),
            evidence: evidence.to_owned(),
        };
        let mut line = serde_json::to_vec(&decision).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = self.0.write_all(&line).and_then(|()| self.0.sync_data()) {
            tracing::warn!(%error, "decision_log_write_failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_cut_at_any_byte_goes_on_with_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("pm")).unwrap();
        let path = dir.path().join("pm/decisions.jsonl");
        let mut log = DecisionLog::open(dir.path(), "pm").unwrap();
        for text in ["one", "ñ\n", "three"] {
            log.note("r", LoggedKind::Stuck, text, &["a"], "b");
        }
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            DecisionLog::open(dir.path(), "pm").unwrap().note(
                "r",
                LoggedKind::Model,
                "new",
                &[],
                "",
            );
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<LoggedDecision> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let kept = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(lines.len(), kept + 1, "cut at {cut}");
        }
    }
}
