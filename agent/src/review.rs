//! Rules of a review that the harness enforces: what must hold, the risks and the tests stand in the thread before
//! any finding, and the role that approves has run the tests. Rounds are the gateway's to count. Pure.

use std::collections::BTreeSet;

/// State of the reviews in a conversation, as far as the rules need it. A role that may hand over without them is
/// bound by none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewGate {
    pub duty: ReviewDuty,
    /// True if the plan of the review stands in the thread.
    pub is_planned: bool,
    /// Tests that there have to be and are not, as the plan of the review says.
    pub missing_tests: Vec<String>,
    /// The role that makes changes, and the one that a review passes them on to.
    pub maker: Option<String>,
    pub lead: Option<String>,
    /// The command that proves a change, where the role can run any.
    pub test: Option<String>,
    /// The role has run it in this run, or has been told to.
    pub has_tested: bool,
    /// The role that reviews the change, for the one that makes it.
    pub other: Option<String>,
    /// True if the role was reminded once in this run.
    pub is_reminded: bool,
}

/// The role's part in a review, which decides what rules bind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewDuty {
    #[default]
    None,
    /// The role reviews changes.
    Reviews,
    /// The maker of the change has asked it to, and no person is talking with it.
    Asked,
    /// The role makes the change, and answers the role that reviews it.
    Makes,
}

/// Facts from which a role's duty is decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReviewParts<'a> {
    /// Name of the role itself.
    pub own: &'a str,
    /// True if the role has the tool that plans a review.
    pub plans_reviews: bool,
    pub has_pull_request: bool,
    /// The role that makes changes, and the one that reviews them.
    pub maker: Option<&'a str>,
    pub reviewer: Option<&'a str>,
    /// The role that decides between others.
    pub lead: Option<&'a str>,
    /// The role that asked for this run.
    pub asked_by: Option<&'a str>,
}

impl ReviewDuty {
    /// Finds the duty: only between who makes a change and who reviews it is there something to agree on.
    pub fn find(parts: ReviewParts<'_>) -> Self {
        let ReviewParts { own, plans_reviews, has_pull_request, maker, reviewer, lead, asked_by } =
            parts;
        let by = |role: Option<&str>| role.is_some() && asked_by == role;
        match plans_reviews {
            true if by(maker) && has_pull_request => Self::Asked,
            // An answer to a question is no verdict.
            true if by(lead) => Self::None,
            true => Self::Reviews,
            false if maker == Some(own) && by(reviewer) && has_pull_request => Self::Makes,
            false => Self::None,
        }
    }
}

/// Effect of a message on a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewStep {
    /// No effect: the message goes to nobody, or to somebody who is only asked.
    Talks,
    /// Changes are sent back to whoever makes them.
    SendsBack,
    /// The change goes on to another role.
    PassesOn,
    /// The message is the review's verdict, addressed to nobody: who goes on is found without it.
    AddressesNobody,
}

/// Reason that a message is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewFault {
    /// A rule is broken; said each time.
    Rule(String),
    /// A duty may be missed with reason; said only once in a run.
    Reminder(String),
}

impl ReviewGate {
    pub fn is_bound(&self) -> bool {
        matches!(self.duty, ReviewDuty::Reviews | ReviewDuty::Asked)
    }

    /// Classifies a message by the roles that it addresses.
    pub fn step_of(&self, text: &str) -> ReviewStep {
        let to: BTreeSet<&str> = addressed_roles(text).collect();
        let is_for = |role: &Option<String>| role.as_ref().is_some_and(|role| to.contains(&**role));
        if is_for(&self.maker) {
            ReviewStep::SendsBack
        } else if is_for(&self.lead) {
            ReviewStep::PassesOn
        } else if self.duty == ReviewDuty::Asked && to.is_empty() {
            ReviewStep::AddressesNobody
        } else {
            ReviewStep::Talks
        }
    }

    /// Finds the rule that a message which hands over breaks.
    pub fn find_fault(&self, text: &str) -> Option<ReviewFault> {
        if self.duty == ReviewDuty::Makes {
            return self.find_missing_view(text);
        }
        if !self.is_bound() {
            return None;
        }
        let step = self.step_of(text);
        if step == ReviewStep::Talks {
            return None;
        }
        if !self.is_planned {
            return Some(ReviewFault::Rule(PLAN_FIRST.to_owned()));
        }
        if step == ReviewStep::SendsBack {
            return None;
        }
        if step == ReviewStep::PassesOn && !self.missing_tests.is_empty() {
            return Some(ReviewFault::Rule(format!(
                "You wrote that tests are missing ({}): ask for them before you judge anything else, or call \
                 PlanReview again with what is there now.",
                self.missing_tests.join("; ")
            )));
        }
        let command = self.test.as_ref().filter(|_| !self.has_tested)?;
        Some(ReviewFault::Reminder(format!(
            "You have not run the tests in this run: run exactly `{command}` in Bash, in the foreground, and judge by \
             what it says. If it can't run here, say why and on what you rely, and say your verdict again."
        )))
    }
}

impl ReviewGate {
    /// Reminds of a view that is missing in a message to the lead: who decides between two roles has to see both
    /// views.
    fn find_missing_view(&self, text: &str) -> Option<ReviewFault> {
        let (maker, other) = (self.maker.as_deref()?, self.other.as_deref()?);
        let missing: Vec<_> =
            [maker, other].into_iter().filter(|role| !has_view(text, role)).collect();
        if self.is_reminded || self.step_of(text) != ReviewStep::PassesOn || missing.is_empty() {
            return None;
        }
        Some(ReviewFault::Reminder(format!(
            "You hand over to who decides between you two: say both views, a line `{maker}: …` and a line `{other}: …`, \
             each with the `path:line` or the command that shows it. Missing: {}.",
            missing.join(", ")
        )))
    }
}

/// Returns true if a line begins with a role's name and says something.
fn has_view(text: &str, role: &str) -> bool {
    let decorates = |c: char| !c.is_alphanumeric();
    text.lines().any(|line| {
        let rest = line.trim_start_matches(decorates);
        let rest = rest
            .get(..role.len())
            .filter(|name| name.eq_ignore_ascii_case(role))
            .map(|_| &rest[role.len()..]);
        let said = rest.map(|rest| rest.trim_start_matches(['*', '_', '`', ' ']));
        said.and_then(|said| said.strip_prefix(':'))
            .is_some_and(|view| view.split_whitespace().count() > 1)
    })
}

/// Answer to a reviewer that judges before it has posted the plan of its review.
pub(crate) const PLAN_FIRST: &str = "Begin a review with its plan: call PlanReview (what must not break, the risks, \
    the tests there have to be), then judge, and say this again.";

/// Roles that lines of a message begin with.
fn addressed_roles(text: &str) -> impl Iterator<Item = &str> {
    let decorates = |c: char| !c.is_alphanumeric() && !"@`>".contains(c);
    text.lines().filter_map(move |line| {
        let role = line.trim_start_matches(decorates).strip_prefix("@codebutler.")?;
        let end = role.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(role.len());
        Some(&role[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> ReviewGate {
        ReviewGate {
            duty: ReviewDuty::Reviews,
            is_planned: true,
            maker: Some("coder".to_owned()),
            lead: Some("lead".to_owned()),
            test: Some("make test".to_owned()),
            has_tested: true,
            ..ReviewGate::default()
        }
    }

    fn fault(gate: &ReviewGate, text: &str) -> String {
        match gate.find_fault(text) {
            None => String::new(),
            Some(ReviewFault::Rule(why)) => format!("rule: {why}"),
            Some(ReviewFault::Reminder(why)) => format!("reminder: {why}"),
        }
    }

    const BACK: &str = "> **@codebutler.coder** 1. [test] a.rs:3";
    const ON: &str = "Approved.\n@codebutler.lead I ran `make test` (0).";

    #[test]
    fn nothing_is_judged_before_what_it_is_judged_by() {
        let unplanned = ReviewGate { is_planned: false, ..gate() };
        for text in [BACK.trim_start_matches("> "), ON] {
            assert!(fault(&unplanned, text).starts_with("rule: Begin a review with"), "{text}");
        }
        assert_eq!(fault(&unplanned, "@codebutler.pm which of the two is meant?"), "");
        assert_eq!(fault(&unplanned, "It is in `a.rs`, see @codebutler.coder's message."), "");
        assert_eq!(fault(&ReviewGate { duty: ReviewDuty::None, ..unplanned }, ON), "");
        assert_eq!(fault(&gate(), ON), "");
    }

    #[test]
    fn a_verdict_for_nobody_is_one_too() {
        let asked = ReviewGate { duty: ReviewDuty::Asked, ..gate() };
        let unplanned = ReviewGate { is_planned: false, ..asked.clone() };
        let said = "Approved. It does what the plan says.";
        assert!(fault(&unplanned, said).starts_with("rule: Begin a review with"));
        assert_eq!(fault(&unplanned, "@codebutler.pm which of the two is meant?"), "");
        assert_eq!(fault(&ReviewGate { duty: ReviewDuty::Reviews, ..unplanned }, said), "");
        let untested = ReviewGate { has_tested: false, ..asked.clone() };
        assert!(fault(&untested, said).starts_with("reminder: You have not run the tests"));
        assert_eq!(fault(&asked, said), "");
    }

    #[test]
    fn who_approves_has_run_the_tests_and_asked_for_those_that_are_missing() {
        let untested = ReviewGate { has_tested: false, ..gate() };
        assert!(fault(&untested, ON).starts_with("reminder: You have not run the tests"));
        assert_eq!(fault(&untested, "@codebutler.coder 1. [test] a.rs:3"), "");
        assert_eq!(fault(&ReviewGate { test: None, ..untested }, ON), "");
        let missing = ReviewGate { missing_tests: vec!["unit: zero".to_owned()], ..gate() };
        assert!(fault(&missing, ON).contains("tests are missing (unit: zero)"));
        assert_eq!(fault(&missing, "@codebutler.coder 1. [test] zero"), "");
    }

    #[test]
    fn who_decides_between_two_hears_both() {
        let gate =
            ReviewGate { duty: ReviewDuty::Makes, other: Some("reviewer".to_owned()), ..gate() };
        let missing = fault(&gate, "@codebutler.lead we can't agree.\n- coder: `a.rs:3` is right");
        assert!(missing.ends_with("Missing: reviewer."), "{missing}");
        let both = "@codebutler.lead\n- **Coder**: `a.rs:3` is right\n- reviewer: it is not";
        assert_eq!(fault(&gate, both), "");
        assert_eq!(fault(&gate, "@codebutler.reviewer fixed"), "");
        assert_eq!(
            fault(&ReviewGate { is_reminded: true, ..gate.clone() }, "@codebutler.lead no"),
            ""
        );
        assert!(!gate.is_bound(), "it reviews nothing");
    }

    #[test]
    fn who_makes_a_change_disagrees_with_who_reviews_it_and_with_nobody_else() {
        let coder = ReviewParts {
            own: "coder",
            has_pull_request: true,
            maker: Some("coder"),
            reviewer: Some("reviewer"),
            lead: Some("lead"),
            ..ReviewParts::default()
        };
        let by = |asked_by| ReviewDuty::find(ReviewParts { asked_by, ..coder });
        assert_eq!(by(Some("reviewer")), ReviewDuty::Makes);
        // The plan came from the pm; whom the lead asked answers the lead; a person asked.
        for asked_by in [Some("pm"), Some("lead"), None] {
            assert_eq!(by(asked_by), ReviewDuty::None, "{asked_by:?}");
        }
        let alone = ReviewParts { reviewer: None, asked_by: None, ..coder };
        assert_eq!(ReviewDuty::find(alone), ReviewDuty::None);
        let reviewer = ReviewParts { own: "reviewer", plans_reviews: true, ..coder };
        let by = |asked_by| ReviewDuty::find(ReviewParts { asked_by, ..reviewer });
        assert_eq!(by(Some("coder")), ReviewDuty::Asked);
        assert_eq!(by(None), ReviewDuty::Reviews);
        assert_eq!(by(Some("lead")), ReviewDuty::None);
    }

    #[test]
    fn an_address_is_what_a_line_begins_with() {
        let of = |text: &str| gate().step_of(text);
        assert_eq!(of("- **@codebutler.coder** fix it"), ReviewStep::SendsBack);
        assert_eq!(of("@codebutler.coder-2 fix it"), ReviewStep::Talks);
        assert_eq!(of("@codebutler.lead fine\n@codebutler.coder thanks"), ReviewStep::SendsBack);
        assert_eq!(of("as @codebutler.lead said"), ReviewStep::Talks);
        assert_eq!(of("`@codebutler.lead`"), ReviewStep::Talks);
    }
}
