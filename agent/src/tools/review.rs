//! The review plan: posted in the thread before anything is judged.

use async_trait::async_trait;
use codebutler_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Most points of one list in a review plan.
const MAX_POINTS: usize = 10;
/// Longest point, in characters.
const MAX_POINT: usize = 300;

pub fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(PlanReview)]
}

/// `PlanReview`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlanReviewArgs {
    /// What must not break, one sentence each: from the plan, existing tests, and callers of what changed.
    pub invariants: Vec<String>,
    /// Where the change is risky.
    pub risks: RiskMatrix,
    /// Tests that this change needs, and whether they exist. Empty if it needs none.
    #[serde(default)]
    pub tests: Vec<TestPoint>,
    /// Why it needs none.
    #[serde(default)]
    pub no_tests: Option<String>,
}

/// Each area, with what there is to say of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RiskMatrix {
    /// Rights, input, secrets.
    pub security: RiskPoint,
    /// Queries, loops, memory, anything without a bound.
    pub performance: RiskPoint,
    /// Existing interfaces, formats, data and settings.
    pub compatibility: RiskPoint,
    /// Edge cases, failures, what happens twice or at the same time.
    pub correctness: RiskPoint,
}

/// How risky, and why.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RiskPoint {
    /// One sentence.
    pub why: String,
    pub level: RiskLevel,
}

/// How risky a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    None,
    Low,
    Medium,
    High,
}

/// A test that the change needs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestPoint {
    /// What it shows, with which input.
    pub what: String,
    pub kind: TestKind,
    /// Whether it exists.
    pub present: bool,
}

/// What a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    Unit,
    Integration,
    E2e,
}

impl TestKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Integration => "integration",
            Self::E2e => "end to end",
        }
    }
}

struct PlanReview;

#[async_trait]
impl Handler for PlanReview {
    type Args = PlanReviewArgs;
    const NAME: &'static str = "PlanReview";
    const DESCRIPTION: &'static str = "Posts your review plan: what must not break, where the risk is, and which tests are \
        needed. Call it before your first finding or verdict, and again if a later round changes it.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: PlanReviewArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        check_form(&args)?;
        let text = show_plan(&args);
        let message =
            wire::PostMessage { key: call.key.to_owned(), text, ..wire::PostMessage::default() };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let missing = args.tests.iter().filter(|test| !test.present);
        let missing_tests: Vec<_> = missing
            .map(|test| format!("{}: {}", test.kind.word(), review_point(&test.what)))
            .collect();
        let then = if missing_tests.is_empty() {
            "Now judge."
        } else {
            "Tests are missing: ask for them in this round, before you judge the logic."
        };
        let record = Some(TranscriptRecord::ReviewPlanned { missing_tests });
        Ok(ToolOutcome::of(format!("Posted as message {ts}. {then}"), ResultKind::Plain)
            .recording(record))
    }
}

fn check_form(args: &PlanReviewArgs) -> Result<(), ToolFailure> {
    let respond = |why: &str| Err(ToolFailure::Respond(why.to_owned()));
    let blank = |text: &String| text.trim().is_empty();
    if args.invariants.is_empty() || args.invariants.len() > MAX_POINTS {
        return respond("give one to ten `invariants`");
    }
    if args.invariants.iter().any(blank) || args.tests.iter().any(|test| blank(&test.what)) {
        return respond("a point is empty: write what it is about, or leave it out");
    }
    if args.tests.len() > MAX_POINTS {
        return respond("give at most ten `tests`: those that show most");
    }
    if args.tests.is_empty() && args.no_tests.as_ref().is_none_or(blank) {
        return respond(
            "`tests` is empty: name the tests that are needed, or say in `noTests` why none is",
        );
    }
    Ok(())
}

/// Review plan for people: risks from medium on, and tests that are missing. A single one of these stays in the line; the
/// whole call is on the thread's page.
fn show_plan(args: &PlanReviewArgs) -> String {
    let invariants: Vec<String> = args.invariants.iter().map(|one| review_point(one)).collect();
    let head = format!("**Review plan**. Must not break: {}", join_points(&invariants));
    let RiskMatrix { security, performance, compatibility, correctness } = &args.risks;
    let areas = [
        ("security", security),
        ("performance", performance),
        ("compatibility", compatibility),
        ("correctness", correctness),
    ];
    let mut points = Vec::new();
    for (area, RiskPoint { level, why }) in areas {
        let level = match level {
            RiskLevel::None | RiskLevel::Low => continue,
            RiskLevel::Medium => "Medium",
            RiskLevel::High => "**High**",
        };
        points.push(format!("{level} risk, {area}: {}", review_point(why)));
    }
    let missing = args.tests.iter().filter(|test| !test.present);
    points.extend(missing.map(|TestPoint { kind, what, .. }| {
        format!("Test **missing**, {}: {}", kind.word(), review_point(what))
    }));
    let untested = args.no_tests.iter().filter(|_| args.tests.is_empty());
    points.extend(untested.map(|why| format!("No tests: {}", review_point(why))));
    match points.as_slice() {
        [] => head,
        [point] => format!("{head} {point}"),
        points => points.iter().fold(head, |text, point| format!("{text}\n- {point}")),
    }
}

/// Joins points to one line, each ended like a sentence.
fn join_points(points: &[String]) -> String {
    let ended = |point: &String| {
        if point.ends_with(['.', '!', '?', '…']) { point.clone() } else { format!("{point}.") }
    };
    points.iter().map(ended).collect::<Vec<_>>().join(" ")
}

fn review_point(text: &str) -> String {
    clip_text(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_POINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(more: &serde_json::Value) -> PlanReviewArgs {
        let risk = json!({"level": "low", "why": "Nothing\nreads it."});
        let mut args = json!({
            "invariants": ["Totals stay in cents."],
            "risks": {"security": risk, "performance": risk, "compatibility": risk,
                "correctness": {"level": "high", "why": "zero"}},
        });
        for (name, value) in more.as_object().unwrap() {
            args[name] = value.clone();
        }
        serde_json::from_value(args).unwrap()
    }

    #[test]
    fn it_is_shown_in_its_form() {
        let tests = json!({"tests": [
            {"kind": "unit", "what": "an empty cart", "present": true},
            {"kind": "e2e", "what": "a sale", "present": false},
        ]});
        assert_eq!(
            show_plan(&args(&tests)),
            "**Review plan**. Must not break: Totals stay in cents.\n- **High** risk, correctness: zero\n- Test \
             **missing**, end to end: a sale"
        );
    }

    #[test]
    fn a_single_point_stays_in_the_line() {
        let there = json!({"tests": [{"kind": "unit", "what": "an empty cart", "present": true}]});
        let line = "**Review plan**. Must not break: Totals stay in cents.";
        assert_eq!(show_plan(&args(&there)), format!("{line} **High** risk, correctness: zero"));
        let low = json!({"level": "none", "why": "-"});
        let risks = json!({"security": low, "performance": low, "compatibility": low,
            "correctness": low});
        let mut none = there;
        none["risks"] = risks;
        assert_eq!(show_plan(&args(&none)), line);
    }

    #[test]
    fn a_change_without_tests_says_why() {
        assert!(check_form(&args(&json!({}))).is_err());
        assert!(check_form(&args(&json!({"noTests": " "}))).is_err());
        assert!(check_form(&args(&json!({"noTests": "Only a comment changed."}))).is_ok());
        assert!(check_form(&args(&json!({"noTests": "x", "invariants": []}))).is_err());
    }
}
