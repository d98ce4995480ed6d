//! A role's offer, as people see it. Pure.

use codebutler_crds::thread::OfferKind;
use codebutler_crds::wire::PostMessage;

use crate::text::markdown;
use crate::text::mrkdwn;

/// A role's offer, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferShown {
    pub kind: OfferKind,
    /// Items, one line each: in Slack's markup for learnings, plain for answers.
    pub items: Vec<String>,
    /// True if nobody waits for an answer.
    pub optional: bool,
}

impl OfferShown {
    /// The offer that a message makes, if any. Its texts are masked already.
    pub fn of(message: &PostMessage) -> Option<Self> {
        if !message.choices.is_empty() {
            let items = message.choices.clone();
            return Some(Self { kind: OfferKind::Choice, items, optional: false });
        }
        let optional = !message.improvements.is_empty();
        let items = if optional { &message.improvements } else { &message.learnings };
        let items: Vec<String> = items.iter().map(|text| markdown::render_inline(text)).collect();
        (!items.is_empty()).then_some(Self { kind: OfferKind::Learnings, items, optional })
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.items.len()).unwrap_or(u32::MAX)
    }

    /// Lists the items, for notifications, other roles, and where blocks can't be shown.
    pub fn listed(&self) -> String {
        let lines = self.items.iter().zip(1..).map(|(item, n)| {
            let item = match self.kind {
                OfferKind::Choice => mrkdwn::escape_text(item),
                OfferKind::Learnings => item.clone(),
            };
            format!("{n}. {item}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
