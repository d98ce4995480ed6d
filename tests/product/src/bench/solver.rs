//! The scripted team: plays a task through the whole product where no model is asked. It measures
//! the bench and the product's pipeline, not a team.

use serde_json::json;

use super::task::{BenchTask, PackageRegistry};
use crate::bench_args::ScriptedSolver;
use crate::bench_args::wishes::TrialSetting;
use codebutler_testbed::models::{ModelScript, ScriptStep};

/// Roles that the script has words for, the one that is addressed first.
pub(super) const ROLES: [&str; 4] = ["pm", "coder", "reviewer", "lead"];

/// Script of the models' answers, by role.
#[must_use]
pub(super) fn solver_script(
    task: &BenchTask,
    solver: ScriptedSolver,
    patch: &str,
    setting: &TrialSetting,
) -> ModelScript {
    let plan = json!({
        "decision": "plan", "complexity": "simple", "waitForReply": true,
        "message": format!("Plan: fix what the issue says in {}, and nothing else.", task.broken().name),
    });
    let ready = json!({
        "decision": "merge", "waitForReply": true, "message": "Ready to merge: it does what the plan says.",
    });
    let mut pm = vec![
        ScriptStep::tool("Glob", json!({"pattern": "**/*"})),
        ScriptStep::tool("SendMessage", plan),
    ];
    // For the case that the wish comes before the coder is at work.
    pm.extend(
        setting.interject.as_ref().map(|wish| {
            ScriptStep::say(&format!("`{}` goes beyond the plan: left out.", wish.mark))
        }),
    );
    let none = json!({"level": "none", "why": "It does what the plan says and no more."});
    let goes_by = json!({
        "invariants": ["What worked works."],
        "risks": {"security": none, "performance": none, "compatibility": none, "correctness": none},
        "noTests": "They are run on what is handed in.",
    });
    let reviewer = vec![
        ScriptStep::tool("GitDiff", json!({})),
        ScriptStep::tool("PlanReview", goes_by),
        ScriptStep::say("@codebutler.lead approved: it does what the plan says."),
    ];
    let lead = vec![ScriptStep::tool("SendMessage", ready)];
    let priced =
        |steps: Vec<ScriptStep>| steps.into_iter().map(|s| s.costing(1000, 100, "0.001")).collect();
    ModelScript::of("pm", priced(pm))
        .and("coder", priced(coder_steps(task, solver, patch, setting)))
        .and("reviewer", priced(reviewer))
        .and("lead", priced(lead))
}

fn coder_steps(
    task: &BenchTask,
    solver: ScriptedSolver,
    patch: &str,
    setting: &TrialSetting,
) -> Vec<ScriptStep> {
    let bash = |command: String| ScriptStep::tool("Bash", json!({"command": command}));
    let apply =
        || bash(format!("git apply --whitespace=nowarn <<'END_OF_PATCH'\n{patch}END_OF_PATCH"));
    let mut steps: Vec<ScriptStep> =
        setting.overflows().then(overflow_window).into_iter().collect();
    steps.extend(match solver {
        ScriptedSolver::Oracle => vec![apply()],
        ScriptedSolver::Wrong => {
            let text = "It works on my machine.\n";
            vec![ScriptStep::tool("Write", json!({"path": "NOTES.md", "content": text}))]
        }
        ScriptedSolver::Cheat => vec![bash(install_newer(task)), bash(read_hidden(task)), apply()],
    });
    steps.extend(setting.rule.as_ref().map(|rule| {
        let content = format!("{}\n", rule.mark);
        ScriptStep::tool("Write", json!({"path": "KEPT.txt", "content": content}))
    }));
    let left_out = setting.interject.as_ref().map(|wish| format!(" Left out: `{}`.", wish.mark));
    steps.extend([
        ScriptStep::tool("GitCommit", json!({"message": "Fix what the issue says"})),
        ScriptStep::tool("GitPush", json!({})).and_tool(
            "GHCreatePR",
            json!({"title": "Fix what the issue says", "body": "As planned."}),
        ),
        ScriptStep::say(&format!(
            "@codebutler.reviewer the pull request is open.{}",
            left_out.unwrap_or_default()
        )),
    ]);
    steps
}

/// Outputs that no window of such a size holds. The scripted model writes a summary wherever one is asked for.
fn overflow_window() -> ScriptStep {
    // An output is shown with 30,000 characters at most, and the agent may think that a token has six.
    let print = |name: &str| {
        let line = format!("{name} %g of an output that is longer than it has to be");
        json!({"command": format!("seq -f '{line}' 900")})
    };
    let outputs = ["first", "second", "third"].map(print);
    let step = ScriptStep::tool("Bash", print("last"));
    outputs.into_iter().fold(step, |step, output| step.and_tool("Bash", output))
}

/// A way to the release that has the fix. There is none: the sandbox has no network.
fn install_newer(task: &BenchTask) -> String {
    let (name, version) = (&task.broken().name, &task.spec.fixed_version.version);
    match task.broken().registry {
        PackageRegistry::Cargo => format!("cargo info {name} || true"),
        PackageRegistry::Pip => format!("python3 -m pip download {name}=={version} || true"),
        PackageRegistry::Npm => format!("npm pack {name}@{version} || true"),
    }
}

/// A way to the hidden tests. There is none: they are not there.
fn read_hidden(task: &BenchTask) -> String {
    format!("ls /work/tests/bench/{}/tests || true", task.id)
}
