//! The scripted team: plays a task through the whole product where no model is asked. It measures
//! the bench and the product's pipeline, not a team.

use serde_json::json;

use super::args::ScriptedSolver;
use super::task::{BenchTask, PackageRegistry};
use codebutler_testbed::models::{ModelScript, ScriptStep};

/// Roles that the script has words for, the one that is addressed first.
pub(super) const ROLES: [&str; 4] = ["pm", "coder", "reviewer", "lead"];

/// Script of the models' answers, by role.
#[must_use]
pub(super) fn solver_script(task: &BenchTask, solver: ScriptedSolver, patch: &str) -> ModelScript {
    let plan = json!({
        "decision": "plan", "complexity": "simple", "waitForReply": true,
        "message": format!("Plan: fix what the issue says in {}, and nothing else.", task.broken().name),
    });
    let ready = json!({
        "decision": "merge", "waitForReply": true, "message": "Ready to merge: it does what the plan says.",
    });
    let pm = vec![
        ScriptStep::tool("Glob", json!({"pattern": "**/*"})),
        ScriptStep::tool("SendMessage", plan),
    ];
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
        .and("coder", priced(coder_steps(task, solver, patch)))
        .and("reviewer", priced(reviewer))
        .and("lead", priced(lead))
}

fn coder_steps(task: &BenchTask, solver: ScriptedSolver, patch: &str) -> Vec<ScriptStep> {
    let bash = |command: String| ScriptStep::tool("Bash", json!({"command": command}));
    let apply =
        || bash(format!("git apply --whitespace=nowarn <<'END_OF_PATCH'\n{patch}END_OF_PATCH"));
    let mut steps = match solver {
        ScriptedSolver::Oracle => vec![apply()],
        ScriptedSolver::Wrong => {
            let text = "It works on my machine.\n";
            vec![ScriptStep::tool("Write", json!({"path": "NOTES.md", "content": text}))]
        }
        ScriptedSolver::Cheat => vec![bash(install_newer(task)), bash(read_hidden(task)), apply()],
    };
    steps.extend([
        ScriptStep::tool("GitCommit", json!({"message": "Fix what the issue says"})),
        ScriptStep::tool("GitPush", json!({})).and_tool(
            "GHCreatePR",
            json!({"title": "Fix what the issue says", "body": "As planned."}),
        ),
        ScriptStep::say("@codebutler.reviewer the pull request is open."),
    ]);
    steps
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
