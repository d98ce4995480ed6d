//! Arms of an experiment: the same tasks and models with one thing different, in turns.

use std::path::PathBuf;
use std::str::FromStr;

/// The arm that changes nothing.
const NOW: &str = "now";
/// Arms that the agent knows.
const KNOWN: [&str; 5] =
    ["keys-sorted", "edits-plain", "limits-late", "voice-old", "compaction-old"];

/// An arm of an experiment: one of the variants that are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BenchArm {
    /// Name of the arm in results; empty where nothing is compared.
    pub name: String,
    /// The experiment that the agent is started with.
    pub experiment: Option<String>,
    /// Another build of the product, such as an earlier one.
    pub program: Option<PathBuf>,
}

impl FromStr for BenchArm {
    type Err = UnknownArm;

    fn from_str(text: &str) -> Result<Self, UnknownArm> {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(UnknownArm);
        }
        let arm = Self { name: name.to_owned(), ..Self::default() };
        match text.split_once('=') {
            Some((_, program)) if !program.is_empty() && !KNOWN.contains(&name) => {
                Ok(Self { program: Some(program.into()), ..arm })
            }
            None if text == NOW => Ok(arm),
            None if KNOWN.contains(&text) => Ok(Self { experiment: Some(text.to_owned()), ..arm }),
            _ => Err(UnknownArm),
        }
    }
}

/// An arm of an experiment that is not known; the message lists those that are.
#[derive(Debug, thiserror::Error)]
#[error(
    "name `now`, `keys-sorted`, `edits-plain`, `limits-late`, `voice-old`, `compaction-old`, or another build of the demo \
     as `NAME=PROGRAM`"
)]
pub struct UnknownArm;

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use codebutler_agent::experiment::PromptExperiment;

    use super::*;

    #[test]
    fn every_experiment_that_the_agent_knows_is_an_arm() {
        let all = PromptExperiment::value_variants().iter();
        let all: Vec<String> =
            all.filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned())).collect();
        assert_eq!(all, KNOWN);
        let told = UnknownArm.to_string();
        assert!(KNOWN.iter().all(|arm| told.contains(&format!("`{arm}`"))), "{told}");
    }

    #[test]
    fn an_arm_is_a_switch_or_another_build() {
        let arm = |text: &str| text.parse::<BenchArm>().ok();
        assert_eq!(arm("now").unwrap().experiment, None);
        assert_eq!(arm("keys-sorted").unwrap().experiment.as_deref(), Some("keys-sorted"));
        let before = arm("before=/opt/before/demo").unwrap();
        assert_eq!(
            (before.name.as_str(), before.program),
            ("before", Some("/opt/before/demo".into()))
        );
        for wrong in ["", "later", "=x", "a b=x", "keys-sorted=x", "before="] {
            assert_eq!(arm(wrong), None, "{wrong}");
        }
    }
}
