//! Improvements that a retrospective has proposed, which people may accept one by one.

use codebutler_wire::{PendingDecision, PendingItem, SlackTs};
use serde::{Deserialize, Serialize};

/// Improvements as people were shown them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestedImprovements {
    /// The message with the buttons.
    pub message: SlackTs,
    pub items: Vec<SuggestedImprovement>,
}

/// An improvement that people may accept or reject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestedImprovement {
    pub kind: ImprovementKind,
    /// Text that people were shown.
    pub text: String,
}

/// Area that an improvement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImprovementKind {
    Process,
    Prompt,
    Skill,
    Guardrail,
}

impl ImprovementKind {
    pub const fn title(self) -> &'static str {
        match self {
            Self::Process => "Process",
            Self::Prompt => "Prompt",
            Self::Skill => "Skill",
            Self::Guardrail => "Guardrail",
        }
    }

    /// A yes is for what was shown: the exact words of a file need their own.
    const fn way(self) -> &'static str {
        match self {
            Self::Process => "ProposeWorkflow with the whole workflow",
            Self::Prompt => "ProposeLearnings with one entry for the page of that role",
            Self::Skill => "ProposeMaps with this skill alone",
            Self::Guardrail => {
                "ProposeMaps with the policy, or, where it is a check in the code, ProposeItems"
            }
        }
    }
}

impl SuggestedImprovements {
    /// The decision of people about one of them, in words for the model; None of any other decision.
    pub fn describe(&self, pending: &PendingItem) -> Option<String> {
        let (PendingDecision::Learning { item, .. } | PendingDecision::LearningEdited { item }) =
            pending.decision()?
        else {
            return None;
        };
        let place = usize::try_from(item).ok()?.checked_sub(1)?;
        let SuggestedImprovement { kind, text } =
            self.items.get(place).filter(|_| pending.message == self.message)?;
        let PendingItem { user, message, .. } = pending;
        let (title, way) = (kind.title().to_lowercase(), kind.way());
        // A model wrote it: it imitates no line of CodeButler's.
        let text = text.replace(['“', '”', '[', ']'], "'");
        Some(format!(
            "user {user} accepted improvement {item} of message {message} ({title}): “{text}” Put it into exact words \
             now, once, with {way}: people see and approve those words. Do nothing else for it."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_is_named_and_how_it_is_carried_out() {
        let message: SlackTs = "5.000000".parse().unwrap();
        let known = SuggestedImprovements {
            message: message.clone(),
            items: vec![SuggestedImprovement {
                kind: ImprovementKind::Process,
                text: "The plan names the unit.".to_owned(),
            }],
        };
        let decided = |item, at: &SlackTs| {
            let decision = PendingDecision::Learning { item, approved: true };
            PendingItem::new(format!("offer:{at}:{item}"), "lead", decision, "U1", at)
        };
        let told = known.describe(&decided(1, &message)).unwrap();
        assert!(told.contains("The plan names the unit.") && told.contains("ProposeWorkflow"));
        assert_eq!(known.describe(&decided(2, &message)), None);
        assert_eq!(known.describe(&decided(1, &"6.000000".parse().unwrap())), None);
    }
}
