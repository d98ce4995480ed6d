//! Edits: decided before they are done, all or nothing, of one file or of several.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::path::Path;

use super::super::paths::{LocatedPath, WorktreeRoot};
use super::super::protocol::EditPlan;
use super::super::{ToolError, names, outside};
use super::opened::{NextContent, OpenedFile, encode_new};
use super::patch::{self, PatchChange};
use super::replace::{ReplacedText, replace_all};
use super::{SeenFiles, io_error, load_existing, load_file, regular_size, sha256, store_file};
use crate::tool_args as args;

/// Stands for the hash of a file that is not there.
const NOTHING: &str = "-";

/// A file, as it is and as it is to be.
struct EditStep {
    at: LocatedPath,
    now: Option<Vec<u8>>,
    next: Option<Vec<u8>>,
    /// Permissions for when it is made anew: of a file that moves, those of its old place.
    permissions: Option<Permissions>,
    told: String,
}

impl EditStep {
    fn plan(&self) -> EditPlan {
        let hash = |bytes: Option<&[u8]>| bytes.map_or_else(|| NOTHING.to_owned(), sha256);
        EditPlan { before: hash(self.now.as_deref()), after: hash(self.next.as_deref()) }
    }
}

/// Plans an edit without doing it: one plan for each file, in order.
pub fn plan_edit(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    args: &args::EditArgs,
) -> Result<Vec<EditPlan>, ToolError> {
    let steps = if let Some(patch) = &args.patch {
        patch_steps(tree, &parse_changes(args, patch)?)?
    } else {
        let step = single_step(tree, args)?;
        let known = seen.hash(&step.at.full);
        let (before, shown) = (step.plan().before, &step.at.shown);
        match known {
            None => {
                return Err(ToolError::refused(format!(
                    "read `{shown}` first (what was read before a restart of the pod does not count)"
                )));
            }
            Some(known) if known != before => {
                return Err(ToolError::refused(format!(
                    "`{shown}` has changed since you read it: read it again"
                )));
            }
            Some(_) => vec![step.replaced(tree, &args.edits)?],
        }
    };
    Ok(steps.iter().map(EditStep::plan).collect())
}

/// Does a planned edit. A repetition after a crash finds it done, or does what is left of it now.
pub fn edit_files(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    scratch: &Path,
    args: &args::EditArgs,
    plan: &[EditPlan],
) -> Result<String, ToolError> {
    let places = match &args.patch {
        Some(patch) => patch_slots(tree, &parse_changes(args, patch)?)?,
        None => vec![names::locate_existing(tree, &args.path)?.0],
    };
    let hashes = places.iter().map(hash_file).collect::<Result<Vec<_>, _>>()?;
    let mut left = false;
    for ((at, now), plan) in places.iter().zip(&hashes).zip(plan) {
        left |= *now == plan.before && plan.before != plan.after;
        if *now != plan.before && *now != plan.after {
            return Err(changed_error(at));
        }
    }
    if places.len() != plan.len() {
        return Err(ToolError::refused("this edit is not the one that was planned: make it again"));
    }
    let mut told = String::new();
    if left {
        let steps = match &args.patch {
            Some(patch) => resume_patch(tree, &parse_changes(args, patch)?, plan, &hashes)?,
            None => vec![single_step(tree, args)?.replaced(tree, &args.edits)?],
        };
        commit_steps(&steps, scratch)?;
        for step in &steps {
            told.push_str(&step.told);
        }
    }
    for (at, plan) in places.iter().zip(plan).filter(|(_, plan)| plan.after != NOTHING) {
        seen.remember(&at.full, &plan.after);
    }
    if told.is_empty() {
        let names: Vec<_> = places.iter().map(|at| format!("`{}`", at.shown)).collect();
        let _ = write!(told, "Edited {}", names.join(", "));
    }
    Ok(told.trim_end().to_owned())
}

fn changed_error(at: &LocatedPath) -> ToolError {
    ToolError::refused(format!(
        "`{}` was changed by something else meanwhile: read it again",
        at.shown
    ))
}

fn hash_file(at: &LocatedPath) -> Result<String, ToolError> {
    Ok(match regular_size(at)? {
        None => NOTHING.to_owned(),
        Some(_) => sha256(&load_file(at)?),
    })
}

fn parse_changes(args: &args::EditArgs, patch: &str) -> Result<Vec<PatchChange>, ToolError> {
    if !args.path.is_empty() || !args.edits.is_empty() {
        return Err(ToolError::refused("pass `patch`, or `path` and `edits`, not all of them"));
    }
    patch::parse_patch(patch).map_err(ToolError::Refused)
}

fn single_step(tree: &WorktreeRoot, args: &args::EditArgs) -> Result<EditStep, ToolError> {
    let (at, _) = names::locate_existing(tree, &args.path)?;
    let now = load_existing(tree, &at)?;
    Ok(EditStep::of(at, Some(now)))
}

impl EditStep {
    /// Begins a step that changes nothing so far.
    fn of(at: LocatedPath, now: Option<Vec<u8>>) -> Self {
        // A file that is removed and has to be put back gets them again.
        let permissions = fs::metadata(&at.full).ok().map(|meta| meta.permissions());
        Self { at, now, next: None, permissions, told: String::new() }
    }

    fn opened(&self, tree: &WorktreeRoot) -> Result<OpenedFile, ToolError> {
        OpenedFile::open(tree, &self.at, self.now.as_deref().unwrap_or_default())
    }

    fn replaced(
        mut self,
        tree: &WorktreeRoot,
        edits: &[args::EditReplacement],
    ) -> Result<Self, ToolError> {
        let file = self.opened(tree)?;
        let done = replace_all(&self.at.shown, file.text(), edits).map_err(ToolError::Refused)?;
        let next = file.with_text(&self.at, &done.text)?;
        self.told = describe_edit(&self.at, &done, &next, "replacement");
        self.next = Some(next.bytes);
        Ok(self)
    }
}

fn describe_edit(at: &LocatedPath, done: &ReplacedText, next: &NextContent, unit: &str) -> String {
    let (count, plural) = (done.count, if done.count == 1 { "" } else { "s" });
    let mut told = format!("Edited `{}` ({count} {unit}{plural})\n", at.shown);
    for note in done.notes.iter().chain(&next.notes) {
        let _ = writeln!(told, "Note: {note}.");
    }
    told + &done.shown()
}

/// The files of a patch, each once: of one that moves, its new place and then its old one.
fn patch_slots(
    tree: &WorktreeRoot,
    changes: &[PatchChange],
) -> Result<Vec<LocatedPath>, ToolError> {
    let mut places = Vec::new();
    for change in changes {
        let (first, second) = match change {
            PatchChange::Add { path, .. }
            | PatchChange::Delete { path }
            | PatchChange::Update { path, to: None, .. } => (path, None),
            PatchChange::Update { path, to: Some(to), .. } => (to, Some(path)),
        };
        for path in std::iter::once(first).chain(second) {
            places.push(tree.locate(path)?);
        }
    }
    let mut known = HashSet::new();
    match places.iter().find(|at| !known.insert(&at.full)) {
        Some(twice) => Err(ToolError::refused(format!(
            "the patch names `{}` twice: put all of a file's changes together",
            twice.shown
        ))),
        None => Ok(places),
    }
}

/// Everything that a patch does. Nothing is done here.
fn patch_steps(tree: &WorktreeRoot, changes: &[PatchChange]) -> Result<Vec<EditStep>, ToolError> {
    patch_slots(tree, changes)?;
    let mut steps = Vec::new();
    for change in changes {
        steps.extend(steps_of(tree, change)?);
    }
    Ok(steps)
}

fn steps_of(tree: &WorktreeRoot, change: &PatchChange) -> Result<Vec<EditStep>, ToolError> {
    let fresh = |path: &str| {
        let at = tree.locate(path)?;
        match regular_size(&at)? {
            None => outside::explain_outside(tree, &at).map_or(Ok(at), Err),
            Some(_) => Err(ToolError::refused(format!("`{}` exists already", at.shown))),
        }
    };
    let there = |path: &str| {
        let at = tree.locate(path)?;
        let now = Some(load_existing(tree, &at)?);
        Ok::<_, ToolError>(EditStep::of(at, now))
    };
    Ok(match change {
        PatchChange::Add { path, text } => {
            let at = fresh(path)?;
            let next = encode_new(tree, &at, text)?;
            let mut told = format!("Created `{}` ({} lines)\n", at.shown, text.lines().count());
            for note in &next.notes {
                let _ = writeln!(told, "Note: {note}.");
            }
            vec![EditStep { next: Some(next.bytes), told, ..EditStep::of(at, None) }]
        }
        PatchChange::Delete { path } => {
            refuse_link(tree, path)?;
            let step = there(path)?;
            let told = format!("Deleted `{}`\n", step.at.shown);
            vec![EditStep { told, ..step }]
        }
        PatchChange::Update { path, to, hunks } => {
            let mut step = there(path)?;
            let next = if hunks.is_empty() {
                // A file that only moves may have any encoding, or be binary.
                let bytes = step.now.clone().unwrap_or_default();
                NextContent { bytes, notes: Vec::new() }
            } else {
                let file = step.opened(tree)?;
                let done = patch::apply_hunks(&step.at.shown, file.text(), hunks)
                    .map_err(ToolError::Refused)?;
                let next = file.with_text(&step.at, &done.text)?;
                step.told = describe_edit(&step.at, &done, &next, "place");
                next
            };
            match to {
                None => {
                    step.next = Some(next.bytes);
                    vec![step]
                }
                Some(to) => {
                    refuse_link(tree, path)?;
                    let at = fresh(to)?;
                    let told = format!("Moved to `{}`\n", at.shown);
                    let permissions = step.permissions.clone();
                    let moved = EditStep {
                        next: Some(next.bytes),
                        permissions,
                        told,
                        ..EditStep::of(at, None)
                    };
                    vec![moved, step]
                }
            }
        }
    })
}

/// A link would stay, and lead nowhere, where the file that it leads to goes.
fn refuse_link(tree: &WorktreeRoot, path: &str) -> Result<(), ToolError> {
    match fs::read_link(tree.root().join(path)) {
        Ok(target) => Err(ToolError::refused(format!(
            "`{path}` is a symbolic link to `{}`: name that file, or remove or move the link, if you have Bash",
            target.display()
        ))),
        Err(_) => Ok(()),
    }
}

/// Steps of a patch that are still to be done after a crash cut it off.
fn resume_patch(
    tree: &WorktreeRoot,
    changes: &[PatchChange],
    plan: &[EditPlan],
    hashes: &[String],
) -> Result<Vec<EditStep>, ToolError> {
    let mut steps = Vec::new();
    let mut index = 0;
    for change in changes {
        let count = if matches!(change, PatchChange::Update { to: Some(_), .. }) { 2 } else { 1 };
        let part = index..index + count;
        index += count;
        let left = |n: usize| hashes[n] == plan[n].before && plan[n].before != plan[n].after;
        let open: Vec<usize> = part.clone().filter(|n| left(*n)).collect();
        if open.is_empty() {
            continue;
        }
        if open.len() == count {
            steps.extend(steps_of(tree, change)?);
        } else if let (2, [old]) = (count, &open[..])
            && *old == part.start + 1
            && let PatchChange::Update { path, .. } = change
        {
            // The new place has it already.
            let at = tree.locate(path)?;
            let now = Some(load_file(&at)?);
            steps.push(EditStep::of(at, now));
        } else {
            return Err(ToolError::refused(
                "a file was moved away while this edit was interrupted: look at what is there",
            ));
        }
    }
    Ok(steps)
}

/// Writes all files, or puts back what it has written.
fn commit_steps(steps: &[EditStep], scratch: &Path) -> Result<(), ToolError> {
    for (done, step) in steps.iter().enumerate() {
        let Err(error) = write_step(step, scratch, step.next.as_deref()) else { continue };
        for step in &steps[..done] {
            if let Err(error) = write_step(step, scratch, step.now.as_deref()) {
                tracing::warn!(%error, "edit_rollback_failed");
            }
        }
        return Err(error);
    }
    Ok(())
}

fn write_step(step: &EditStep, scratch: &Path, content: Option<&[u8]>) -> Result<(), ToolError> {
    let at = &step.at;
    let Some(content) = content else {
        return fs::remove_file(&at.full).map_err(|e| io_error(at, "can't be removed", &e));
    };
    if let Some(parent) = at.full.parent() {
        fs::create_dir_all(parent).map_err(|e| io_error(at, "the folder can't be made", &e))?;
    }
    store_file(at, scratch, content, step.permissions.as_ref())
}
