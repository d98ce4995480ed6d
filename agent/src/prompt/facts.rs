//! Facts for the prompt: those that hold for the whole conversation, and those of this moment.

use std::fmt::Write as _;

use codebutler_wire::{RoleSession, StackedBranch};

use super::PromptGuides;
use codebutler_guides::text::{clip_text, head_and_tail, plain_text};
use codebutler_guides::voice::guard_fence;

/// Most characters of a plan that are shown.
const MAX_PLAN: usize = 16_000;
const PLAN: &str = "approved-plan";
const MAX_PEOPLE: usize = 20;
/// Most hosts that are named.
const MAX_HOSTS: usize = 20;

/// Facts that all conversations of a role about a repository share.
pub(super) fn team_facts(guides: &PromptGuides, session: &RoleSession) -> String {
    let mut out = String::from("# Where you are\n\n");
    let RoleSession { role, base_branch, .. } = session;
    let _ = writeln!(out, "- The team:");
    for card in &session.roles {
        let you = if card.role == *role { " (you)" } else { "" };
        let (role, name, description) = (&card.role, &card.name, &card.description);
        let _ = writeln!(out, "  - `@codebutler.{role}`{you}: {name}. {description}");
    }
    let here = &guides.surroundings;
    command_facts(&mut out, guides, session);
    if !here.nested.is_empty() {
        let _ = writeln!(
            out,
            "- Rules for parts of the repository: `{}`. Read the one nearest to the code before you plan or change it.",
            here.nested.join("`, `")
        );
    }
    if !here.top.is_empty() {
        let _ = writeln!(out, "- The top of its tree, as of `{base_branch}`:\n");
        let _ = writeln!(out, "```\n{}\n```", here.top.join("\n"));
    }
    out.push('\n');
    out
}

/// All facts that stay the same for a whole conversation.
#[cfg(test)]
pub(super) fn lasting_facts(guides: &PromptGuides, session: &RoleSession) -> String {
    team_facts(guides, session) + &thread_facts(guides, session)
}

/// Facts of one conversation alone, as long as it lasts.
pub(super) fn thread_facts(guides: &PromptGuides, session: &RoleSession) -> String {
    let mut out = String::from("# This conversation\n\n");
    let RoleSession { namespace, thread, repo, role, branch, base_branch, .. } = session;
    let _ = writeln!(
        out,
        "- You are `{role}`, in conversation `{namespace}/{thread}` about the repository `{repo}`."
    );
    let _ = writeln!(out, "- Branch of this conversation: `{branch}`, made from `{base_branch}`.");
    if let Some(stacked) = &session.stacked_on {
        let StackedBranch { item, commit } = stacked;
        let how = if has_tool(session, "GitDiff") {
            format!(
                " GitDiff with `base` `{commit}` shows what is; plan, build and review that alone."
            )
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "- It began on the branch of item `{item}` of the roadmap, at `{commit}`: what is older than that is not this \
             conversation's.{how}"
        );
    }
    let here = &guides.surroundings;
    if !here.root.is_empty() {
        let _ = writeln!(out, "- The worktree is `{}`, on {}.", here.root, here.platform);
    }
    out
}

fn has_tool(session: &RoleSession, name: &str) -> bool {
    session.tools.iter().any(|tool| tool == name)
}

/// Describes the environment of commands, their programs and network access; for a role that can run commands.
fn command_facts(out: &mut String, guides: &PromptGuides, session: &RoleSession) {
    if !has_tool(session, "Bash") {
        return;
    }
    let here = &guides.surroundings;
    out.push_str(if here.copies {
        "- Bash runs in a copy that follows the worktree: what it writes there is not committed, and no other role sees it.\n"
    } else {
        "- Bash runs in the worktree itself.\n"
    });
    if !here.programs.is_empty() {
        let _ = writeln!(out, "- Programs: {}.", here.programs.join("; "));
    }
    let shown: Vec<&str> = session.hosts.iter().take(MAX_HOSTS).map(String::as_str).collect();
    let more = session.hosts.len().saturating_sub(MAX_HOSTS);
    let _ = match (shown.is_empty(), more) {
        (true, _) => writeln!(out, "- Commands reach no host."),
        (false, 0) => {
            writeln!(out, "- Commands reach `{}`, and no other host.", shown.join("`, `"))
        }
        (false, more) => {
            writeln!(out, "- Commands reach `{}` and {more} more hosts.", shown.join("`, `"))
        }
    };
}

/// Facts of this moment. They differ from run to run, so they stand behind everything that does not.
pub fn changing_facts(guides: &PromptGuides, session: &RoleSession) -> String {
    let mut out = String::from("# As of now\n\n");
    let here = &guides.surroundings;
    if !here.day.is_empty() {
        let _ = writeln!(out, "- It is {} (UTC).", here.day);
    }
    let minutes = session.timeout_seconds.div_ceil(60);
    let _ = writeln!(
        out,
        "- This run ends after {} model calls or {minutes} minute{}.",
        session.max_turns,
        if minutes == 1 { "" } else { "s" }
    );
    let people = people_facts(session);
    if !people.is_empty() {
        let _ = writeln!(out, "- People, with the names that they gave themselves: {people}.");
    }
    let request = match &session.pull_request {
        None => "none yet".to_owned(),
        Some(request) => format!("#{}, {}", request.number, request.url),
    };
    let _ = writeln!(out, "- Pull request: {request}.");
    git_facts(&mut out, guides, session);
    if let Some(set_up) = guides.set_up.as_ref().filter(|_| has_tool(session, "Bash")) {
        let _ = writeln!(out, "- {set_up}");
    }
    test_facts(&mut out, session);
    if has_tool(session, "ProposeLearnings") {
        let has = if session.looks_back { "has a retrospective" } else { "has no retrospective" };
        let _ = writeln!(out, "- This team {has} before a merge.");
    }
    unhelpful_facts(&mut out, session);
    if is_unknown(guides, session) {
        out.push_str(
            "- This is the first conversation about this repository, and it has no `.codebutler/` yet. Say so in one \
             sentence at the end of your first answer: when people write `learn`, the team explores it and proposes \
             what to remember.\n",
        );
    }
    plan_facts(&mut out, session);
    out
}

/// Reports answers that did not help people as frictions, for the role that looks back.
fn unhelpful_facts(out: &mut String, session: &RoleSession) {
    if session.unhelpful.is_empty() {
        return;
    }
    let told = session.unhelpful.iter().map(|answer| {
        let why = match &answer.why {
            Some(why) => format!("message {why} says why"),
            None => "they did not say why".to_owned(),
        };
        let by = clip_text(&answer.by, 24);
        format!("message {} of {} (user {by}; {why})", answer.message, answer.role)
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let _ = writeln!(out, "- People said that these answers did not help them: {told}.");
}

/// The test command, for a role that can run it.
fn test_facts(out: &mut String, session: &RoleSession) {
    let Some(test) = session.test.as_ref().filter(|_| has_tool(session, "Bash")) else { return };
    let _ = if has_tool(session, "GitPush") {
        writeln!(
            out,
            "- Test command: `{test}`. Run exactly this after your last change and before you push: people \
             see whether what is pushed was tested with it."
        )
    } else {
        writeln!(out, "- Test command: `{test}`.")
    };
}

/// True if there is code and nobody has written down anything about it, for the role that people talk to: it tells
/// them.
fn is_unknown(guides: &PromptGuides, session: &RoleSession) -> bool {
    let top = &guides.surroundings.top;
    let is_first_role = session.roles.first().is_some_and(|card| card.role == session.role);
    let is_kept = top.iter().any(|entry| entry.starts_with(".codebutler"));
    session.is_first && is_first_role && !top.is_empty() && !is_kept
}

fn git_facts(out: &mut String, guides: &PromptGuides, session: &RoleSession) {
    let here = &guides.surroundings;
    if here.head.is_empty() {
        return;
    }
    let (ahead, behind) = here.apart;
    let uncommitted = match here.uncommitted {
        0 => "nothing is uncommitted".to_owned(),
        1 => "1 file is not committed".to_owned(),
        files => format!("{files} files are not committed"),
    };
    let _ = writeln!(
        out,
        "- Git: HEAD is at `{}`, {ahead} commit(s) ahead of `{base}` and {behind} behind; {uncommitted}.",
        here.head,
        base = session.base_branch
    );
    if !here.guides.is_empty() {
        let _ = writeln!(
            out,
            "- This thread changes `{}`: until that is merged, what `{}` says counts, as shown above.",
            here.guides.join("`, `"),
            session.base_branch
        );
    }
    if !here.elsewhere.is_empty() {
        let _ = writeln!(
            out,
            "- Git LFS keeps `{}`: such files are pointers of three lines here, not their contents. \
             Leave them as they are: their contents can be neither read nor changed from here.",
            here.elsewhere.join("`, `")
        );
    }
    sparse_facts(out, guides, session);
    if !here.submodules.is_empty() {
        let _ = writeln!(
            out,
            "- Submodules are not fetched: `{}` is empty here and stays as the base branch has it. What needs them can't be \
             built or tested from here: say so.",
            here.submodules.join("`, `")
        );
    }
    if !here.hooks.is_empty() && has_tool(session, "GitCommit") {
        let _ = writeln!(
            out,
            "- Hooks of the repository: `{}`. GitCommit and GitPush don't run them: run what they check in Bash \
             before you commit.",
            here.hooks.join("`, `")
        );
    }
    if !here.branch.is_empty() {
        let _ = writeln!(out, "- The branch: {}", here.branch);
    }
}

/// Tells which part of the repository is here, and how the rest is reached.
fn sparse_facts(out: &mut String, guides: &PromptGuides, session: &RoleSession) {
    let Some(sparse) = &guides.surroundings.sparse else { return };
    let folders = if sparse.folders.is_empty() {
        "only what `.git/info/sparse-checkout` names is here".to_owned()
    } else {
        let folders = sparse.folders.join("`, `");
        format!("of its folders only `{folders}` are here, with the files directly above them")
    };
    let bash = if has_tool(session, "Bash") {
        " `git grep PATTERN HEAD -- FOLDER` in Bash searches them. `git sparse-checkout add FOLDER` brings a folder: do that \
         before you change something in it, or build with it."
    } else {
        " Say so where an answer may depend on more of them than you can look at."
    };
    let show = if has_tool(session, "GitShow") {
        " GitShow with `commit` HEAD, `path` and `file` shows one."
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "- The repository is large, and this is a sparse checkout: {folders}. Outside of it are {} tracked files, which \
         commits keep as they are.{show}{bash}",
        sparse.outside
    );
}

fn plan_facts(out: &mut String, session: &RoleSession) {
    let Some(plan) = &session.plan else {
        let _ = writeln!(out, "- Plan: none yet.");
        return;
    };
    let by = &plan.role;
    let known = |user: &String| match session.people.get(user) {
        Some(name) => format!("{user} ({})", harmless_name(name)),
        None => user.clone(),
    };
    let how = match (&plan.approved_by, &plan.declined_by) {
        (Some(user), _) => format!("approved by user {}", known(user)),
        (None, Some(user)) => format!("declined by user {}", known(user)),
        (None, None) => "not approved".to_owned(),
    };
    let _ = writeln!(out, "- Plan: proposed by {by}, {how}.");
}

/// The words of the plan, if people have approved it. They are apart from what changes more often.
pub fn approved_plan(session: &RoleSession) -> Option<String> {
    session.plan.as_ref()?.approved_by.as_ref()?;
    let text = head_and_tail(session.plan_text.as_deref()?.trim(), MAX_PLAN);
    let text = guard_fence(&text, PLAN);
    Some(format!("The approved plan, whole:\n\n<{PLAN}>\n{text}\n</{PLAN}>"))
}

fn people_facts(session: &RoleSession) -> String {
    let known = session.people.iter().take(MAX_PEOPLE);
    let known = known.map(|(id, name)| format!("{} is {}", clip_text(id, 24), harmless_name(name)));
    known.collect::<Vec<_>>().join(", ")
}

/// A name that somebody chose: letters, digits and a few signs, in quotes, in one line.
fn harmless_name(name: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || " .'-".contains(c) { c } else { ' ' };
    let name: String = plain_text(name).chars().map(kept).collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\"{}\"", clip_text(&name, 40))
}
