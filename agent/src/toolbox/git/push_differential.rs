//! Random sequences of commits, pushes and what people do to the branch meanwhile, played beside plain Git as a
//! careful person uses it: what the remote holds after each push has to be the same.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::differential::Dice;
use super::fixture::GitFixture;
use super::push::{PushOutcome, push_branch};
use super::{commit_files, head_commit, prepare_worktree};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;

const SEQUENCES: u64 = 60;
const STEPS: usize = 12;
const THREADS: u64 = 4;
/// Some whose changes look alike to who leaves out white space, or what binary files hold.
const PATHS: [&str; 8] = ["README", "a", "b", "c", "src/one", "src/two", "logo.bin", "src/a.py"];
const BRANCH: &str = "codebutler/t";

enum Step {
    /// The role commits a change of a file.
    Commit(&'static str, usize),
    Delete(&'static str),
    /// The role takes its last commit again, if that is on no remote.
    Amend(&'static str, usize),
    Push,
    Prepare,
    /// The role puts its commits on the remote's branch by hand.
    ByHand,
    /// Somebody pushes to the branch.
    Elsewhere(&'static str, usize),
    /// Somebody rewrites the branch and pushes it by force.
    Rewrite(Rewrite),
    Vanish,
    /// The branch is made again by hand, after a yes.
    MadeAgain,
}

#[derive(Clone, Copy, Debug)]
enum Rewrite {
    DropLast,
    DropBefore,
    Squash,
    Reword,
    OntoMain(usize),
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Conflict,
    Refused,
}

impl Step {
    fn roll(dice: &mut Dice, at: usize) -> Self {
        let path = PATHS[dice.roll(PATHS.len())];
        match dice.roll(26) {
            0..=5 => Self::Commit(path, at),
            6 => Self::Delete(path),
            7 | 8 => Self::Amend(path, at),
            9..=13 => Self::Push,
            14 | 15 => Self::Prepare,
            16 => Self::ByHand,
            17..=19 => Self::Elsewhere(path, at),
            20 => Self::Rewrite(Rewrite::DropLast),
            21 => Self::Rewrite(Rewrite::DropBefore),
            22 => Self::Rewrite(Rewrite::Squash),
            23 => Self::Rewrite(Rewrite::Reword),
            24 => Self::Rewrite(Rewrite::OntoMain(at)),
            _ if dice.roll(2) == 0 => Self::Vanish,
            _ => Self::MadeAgain,
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Commit(path, at) => write!(f, "commit {path} {at}"),
            Self::Delete(path) => write!(f, "commit without {path}"),
            Self::Amend(path, at) => write!(f, "amend {path} {at}"),
            Self::Push => f.write_str("push"),
            Self::Prepare => f.write_str("prepare"),
            Self::ByHand => f.write_str("rebase by hand"),
            Self::Elsewhere(path, at) => write!(f, "somebody pushes {path} {at}"),
            Self::Rewrite(how) => write!(f, "somebody rewrites: {how:?}"),
            Self::Vanish => f.write_str("somebody deletes the branch"),
            Self::MadeAgain => f.write_str("made again by hand"),
        }
    }
}

/// A remote, a person's clone and a worktree; `known` is what the worktree last had of the branch, in plain Git.
struct Side {
    f: GitFixture,
    known: String,
}

impl Side {
    fn ours() -> Self {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        Self { f, known: String::new() }
    }

    fn plain() -> Self {
        let f = GitFixture::new();
        let remote = f.dir.path().join("remote.git");
        let to = f.place.tree();
        f.git(
            f.dir.path(),
            &["clone", "-q", "-b", BRANCH, remote.to_str().unwrap(), to.to_str().unwrap()],
        );
        let known = f.git(&to, &["rev-parse", "HEAD"]);
        Self { f, known }
    }

    fn try_git(&self, dir: &Path, args: &[&str]) -> bool {
        let author = &self.f.place.hello.author;
        let (name, email) = if dir == self.f.place.tree() {
            (author.name.as_str(), author.email.as_str())
        } else {
            ("Someone", "someone@example.org")
        };
        let out = Command::new("git")
            .args(["-c", &format!("user.name={name}"), "-c", &format!("user.email={email}")])
            .args(["-c", "merge.directoryRenames=false", "-c", "core.editor=true"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output();
        out.unwrap().status.success()
    }

    fn tree(&self, args: &[&str]) -> bool {
        self.try_git(&self.f.place.tree(), args)
    }

    fn seed(&self, args: &[&str]) -> bool {
        self.try_git(&self.f.dir.path().join("seed"), args)
    }

    fn rev(&self, name: &str) -> String {
        self.f.git(&self.f.place.tree(), &["rev-parse", name])
    }

    fn is_on_remote(&self) -> bool {
        let remote = self.f.dir.path().join("remote.git");
        self.try_git(&remote, &["rev-parse", "-q", "--verify", &format!("refs/heads/{BRANCH}")])
    }

    /// True if HEAD is an ancestor of the remote-tracking branch.
    fn is_shared(&self) -> bool {
        let behind = format!("refs/remotes/origin/{BRANCH}");
        self.tree(&["merge-base", "--is-ancestor", "HEAD", &behind])
    }

    /// The part of a step that is the same on both sides; false if it can't be done now.
    fn play(&self, step: &Step) -> bool {
        let write = |dir: &Path, path: &str, at: usize| {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = match path.extension().and_then(|ending| ending.to_str()) {
                Some("bin") => format!("\0{at}"),
                Some("py") => format!("if a:\n{}b()\n", " ".repeat(at + 1)),
                _ => format!("{at}\n"),
            };
            fs::write(path, text).unwrap();
        };
        let seed = self.f.dir.path().join("seed");
        match step {
            Step::Commit(path, at) => write(&self.f.place.tree(), path, *at),
            Step::Delete(path) => return fs::remove_file(self.f.place.tree().join(path)).is_ok(),
            Step::Amend(path, at) => {
                if self.is_shared() {
                    return false;
                }
                write(&self.f.place.tree(), path, *at);
                return self.tree(&["add", "-A"])
                    && self.tree(&["commit", "-q", "--amend", "--no-edit"]);
            }
            Step::Elsewhere(path, at) => {
                if !self.newest() {
                    return false;
                }
                write(&seed, path, *at);
                assert!(self.seed(&["add", "-A"]));
                assert!(self.seed(&["commit", "-qm", &format!("Elsewhere {at}")]));
                assert!(self.seed(&["push", "-q", "origin", &format!("HEAD:{BRANCH}")]));
            }
            Step::Rewrite(how) => return self.newest() && self.rewrite(*how),
            Step::Vanish => return self.seed(&["push", "-q", "origin", &format!(":{BRANCH}")]),
            Step::MadeAgain => {
                return !self.is_on_remote()
                    && self.tree(&["push", "-q", "origin", &format!("HEAD:refs/heads/{BRANCH}")]);
            }
            Step::Push | Step::Prepare | Step::ByHand => {}
        }
        true
    }

    /// Rebases as the role's own command line does, if the remote's branch goes on from what is here.
    fn rebase_by_hand(&self) -> bool {
        let remote = format!("refs/remotes/origin/{BRANCH}");
        let known =
            self.f.git(&self.f.place.tree(), &["for-each-ref", "--format=%(objectname)", &remote]);
        let fetched = self.tree(&["fetch", "-q", "--prune", "origin"]);
        let goes_on = self.tree(&["merge-base", "--is-ancestor", &known, &remote]);
        if !fetched || !goes_on {
            return false;
        }
        self.tree(&["rebase", "-q", "--no-fork-point", &remote]) || {
            self.tree(&["rebase", "--abort"]);
            false
        }
    }

    /// The person's clone is at the remote's branch.
    fn newest(&self) -> bool {
        self.seed(&["fetch", "-q", "--prune", "origin"])
            && self.seed(&["reset", "-q", "--hard", &format!("origin/{BRANCH}")])
    }

    fn rewrite(&self, how: Rewrite) -> bool {
        let done = match how {
            Rewrite::DropLast => self.own(1) && self.seed(&["reset", "-q", "--hard", "HEAD~1"]),
            Rewrite::DropBefore => {
                self.own(2) && self.seed(&["rebase", "-q", "--onto", "HEAD~2", "HEAD~1"])
            }
            Rewrite::Squash => {
                self.own(2)
                    && self.seed(&["reset", "-q", "--soft", "HEAD~2"])
                    && self.seed(&["commit", "-q", "--allow-empty", "-m", "Squashed"])
            }
            Rewrite::Reword => {
                self.own(1)
                    && self.seed(&["commit", "-q", "--amend", "--allow-empty", "-m", "Reworded"])
            }
            Rewrite::OntoMain(at) => {
                self.f.merge(&[(&format!("base{at}"), "1")]);
                self.seed(&["rebase", "-q", "main"])
            }
        };
        if !done {
            self.seed(&["rebase", "--abort"]);
            return false;
        }
        self.seed(&["push", "-qf", "origin", &format!("HEAD:{BRANCH}")])
    }

    /// Returns true if at least `count` commits of the branch are on no base branch.
    fn own(&self, count: usize) -> bool {
        let seed = self.f.dir.path().join("seed");
        let own = self.f.git(&seed, &["rev-list", "--count", "origin/main..HEAD"]);
        own.parse::<usize>().unwrap() >= count
    }

    fn log(&self) -> String {
        let remote = self.f.dir.path().join("remote.git");
        let there = if self.is_on_remote() {
            self.f.git(&remote, &["log", "--format=%T %an: %s", BRANCH])
        } else {
            "no branch".to_owned()
        };
        let here = self.f.git(&self.f.place.tree(), &["log", "--format=%T %an: %s"]);
        let status = self.f.git(&self.f.place.tree(), &["status", "--porcelain"]);
        format!("remote\n{there}\nhere\n{here}\nstatus\n{status}")
    }
}

/// Steps as the toolbox does them.
impl Side {
    fn commit(&self, at: usize) -> bool {
        let tree = WorktreeRoot::open(&self.f.place.tree()).unwrap();
        let args = args::GitCommit { message: format!("Step {at}"), paths: None };
        commit_files(&self.f.place, &tree, &args, &head_commit(&self.f.place).unwrap()).is_ok()
    }

    fn push(&self) -> Result<Outcome, String> {
        match push_branch(&self.f.place) {
            Ok(PushOutcome::Done(_)) => Ok(Outcome::Done),
            Ok(PushOutcome::Conflict(..)) => Ok(Outcome::Conflict),
            Err(ToolError::Refused(_)) => Ok(Outcome::Refused),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The same steps with plain Git, as a careful person does them.
impl Side {
    /// The own commits on what the branch has become; a conflict changes nothing.
    fn pull(&mut self) -> Outcome {
        assert!(self.tree(&["fetch", "-q", "--prune", "origin"]));
        if !self.is_on_remote() {
            return Outcome::Refused;
        }
        let remote = format!("refs/remotes/origin/{BRANCH}");
        let is_in =
            |one: &str, other: &str| self.tree(&["merge-base", "--is-ancestor", one, other]);
        let now = self.rev(&remote);
        let done = if is_in(&self.known, &now) {
            is_in(&now, "HEAD") || self.tree(&["rebase", "-q", "--no-fork-point", &remote])
        } else {
            self.tree(&["rebase", "-q", "--no-fork-point", "--onto", &remote, &self.known])
        };
        if !done {
            assert!(self.tree(&["rebase", "--abort"]));
            return Outcome::Conflict;
        }
        self.known = now;
        Outcome::Done
    }

    /// Prepares the worktree as before a run: own commits that nobody has yet wait for a push.
    fn prepare(&mut self) {
        assert!(self.tree(&["fetch", "-q", "--prune", "origin"]));
        let remote = format!("refs/remotes/origin/{BRANCH}");
        let is_in =
            |one: &str, other: &str| self.tree(&["merge-base", "--is-ancestor", one, other]);
        if !is_in(&self.known, &remote) || is_in("HEAD", &remote) {
            self.pull();
        }
    }

    /// Pulls and pushes as plain Git would; without anything to push the branch stays where it is.
    fn push_plainly(&mut self) -> Outcome {
        assert!(self.tree(&["fetch", "-q", "--prune", "origin"]));
        let remote = format!("refs/remotes/origin/{BRANCH}");
        let goes_on = self.tree(&["merge-base", "--is-ancestor", &self.known, &remote]);
        if goes_on && self.tree(&["merge-base", "--is-ancestor", "HEAD", &remote]) {
            return Outcome::Done;
        }
        let pulled = self.pull();
        if pulled != Outcome::Done {
            return pulled;
        }
        assert!(self.tree(&["push", "-q", "origin", &format!("HEAD:{BRANCH}")]));
        self.known = self.rev("HEAD");
        Outcome::Done
    }
}

fn play(seed: u64) -> Result<(), String> {
    let mut dice = Dice(seed);
    let (ours, mut plain) = (Side::ours(), Side::plain());
    let mut log = format!("seed {seed}\n");
    for at in 0..STEPS {
        let step = Step::roll(&mut dice, at);
        let _ = writeln!(log, "  {step}");
        let done = (ours.play(&step), plain.play(&step));
        if done.0 != done.1 {
            return Err(format!("{log}could be done on one side only: {done:?}"));
        }
        if !done.0 {
            continue;
        }
        let outcomes = match step {
            Step::Commit(..) | Step::Delete(_) => {
                plain.tree(&["add", "-A"]);
                plain.tree(&["commit", "-qm", &format!("Step {at}")]);
                ours.commit(at);
                continue;
            }
            Step::Push => (ours.push(), plain.push_plainly()),
            Step::Prepare => {
                let said = prepare_worktree(&ours.f.place).map_err(|e| format!("{log}{e}"))?;
                let _ = writeln!(log, "    {said}");
                plain.prepare();
                (Ok(Outcome::Done), Outcome::Done)
            }
            Step::ByHand => {
                let done = (ours.rebase_by_hand(), plain.rebase_by_hand());
                if done.0 != done.1 {
                    return Err(format!("{log}a rebase by hand works on one side only: {done:?}"));
                }
                continue;
            }
            Step::MadeAgain => {
                plain.known = plain.rev("HEAD");
                continue;
            }
            _ => continue,
        };
        let _ = writeln!(log, "    {outcomes:?}");
        if outcomes.0.as_ref().ok() != Some(&outcomes.1) {
            return Err(format!("{log}ours and plain Git differ"));
        }
        let (a, b) = (ours.log(), plain.log());
        if a != b {
            return Err(format!("{log}ours:\n{a}\nplain Git:\n{b}"));
        }
    }
    Ok(())
}

#[test]
fn whatever_people_do_to_a_branch_a_push_leaves_what_plain_git_would() {
    super::init_libgit();
    let first: u64 = std::env::var("GIT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let seeds = (first..first + SEQUENCES).filter(|seed| seed % THREADS == thread);
                    seeds.filter_map(|seed| play(seed).err()).collect::<Vec<_>>()
                })
            })
            .collect();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    let shown = failed.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(failed.is_empty(), "{} of {SEQUENCES} sequences differ:\n{shown}", failed.len());
}
