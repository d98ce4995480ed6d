//! Landlock: which files a command reaches, whom it may signal, which abstract sockets it finds.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};

use super::{SandboxError, SandboxPlan, broken_sandbox, unsupported_kernel};

/// The least: before it, a file could not be moved between folders.
const LEAST: ABI = ABI::V2;
/// The newest whose rights are used: truncation (3), devices (5), signals and abstract sockets (6).
const NEWEST: ABI = ABI::V6;
/// Devices that commands write to.
const DEVICES: [&str; 9] =
    ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];

/// Restricts this thread; says which version is in force.
pub(super) fn restrict_files(plan: &SandboxPlan) -> Result<u8, SandboxError> {
    let status = apply_ruleset(plan).map_err(|error| match error {
        RulesetError::HandleAccesses(_) | RulesetError::CreateRuleset(_) => unsupported_kernel(),
        other => broken_sandbox(other),
    })?;
    match (status.ruleset, status.landlock) {
        (
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced,
            LandlockStatus::Available { effective_abi, .. },
        ) if effective_abi >= LEAST => {
            Ok((effective_abi as i32).clamp(0, 99).try_into().unwrap_or(0))
        }
        _ => Err(unsupported_kernel()),
    }
}

fn apply_ruleset(plan: &SandboxPlan) -> Result<RestrictionStatus, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let hidden: Vec<PathBuf> =
        plan.hide.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let rules = allow_readable(rules, Path::new("/"), &hidden)?;
    // Device nodes are nobody's business.
    let all = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let mut rules = rules;
    for folder in &plan.read {
        rules = allow_path(rules, folder, AccessFs::from_read(NEWEST))?;
    }
    for folder in &plan.write {
        rules = allow_path(rules, folder, all)?;
    }
    for device in DEVICES {
        rules = allow_path(rules, &Path::new("/dev").join(device), all)?;
    }
    rules.restrict_self()
}

/// Landlock only ever allows: what surrounds something hidden is allowed piece by piece.
fn allow_readable(
    mut rules: RulesetCreated,
    path: &Path,
    hidden: &[PathBuf],
) -> Result<RulesetCreated, RulesetError> {
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return allow_path(rules, path, AccessFs::from_read(NEWEST));
    }
    if hidden.iter().any(|hidden| hidden == path) {
        return Ok(rules);
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        // A link is what it leads to, and that is allowed, or not, where it lies.
        if !path.is_symlink() {
            rules = allow_readable(rules, &path, hidden)?;
        }
    }
    Ok(rules)
}

/// Adds a rule for a path, and none if there is nothing at the path.
fn allow_path(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(place, access))
}
