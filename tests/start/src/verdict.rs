//! The verdict on a machine: what is in the way of the demo, or how to build it there.

use super::facts::{MachineFacts, NamespaceAccess};

/// The oldest Git with all that the gateway asks of it (`merge-tree --stdin`).
const GIT: (u64, u64) = (2, 39);
/// MB of disk that the first build takes; the README says so, too.
const BUILD_MB: u64 = 4000;
/// MB of memory below which the demo does not start once it is built.
const DEMO_MB: u64 = 700;
/// MB of disk that a running demo writes before anybody's repository is in it.
pub const RUN_DISK_MB: u64 = 300;
/// MB of memory that the largest crate takes to compile beyond what any of them does, and that of any: estimates.
const LARGEST_MB: u64 = 1000;
const JOB_MB: u64 = 1000;

/// The way in which the demo is going to be built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildPlan {
    /// Sentences for the user before anything is built.
    pub notices: Vec<String>,
    /// Number of jobs, where cargo's own would not fit into memory.
    pub jobs: Option<u64>,
}

/// Judges a machine.
///
/// # Errors
/// All that is in the way, each with what to do about it.
pub(crate) fn judge_machine(facts: &MachineFacts) -> Result<BuildPlan, Vec<String>> {
    if facts.system != "linux" {
        return Err(vec![format!(
            "this is {}, and the demo runs on Linux alone: use a Linux machine, real or virtual",
            facts.system
        )]);
    }
    let mut troubles = Vec::new();
    if !facts.only_tells {
        troubles.extend(judge_git(facts.git.as_deref()));
    }
    if !facts.has_compiler && !facts.is_built {
        troubles.push(
            "there is no C compiler (`cc`), which some dependencies are built with: apt-get install gcc libc6-dev"
                .to_owned(),
        );
    }
    if let NamespaceAccess::Refused(setting) = &facts.namespaces {
        troubles.push(tell_namespaces(setting.as_deref()));
    }
    let mut plan = BuildPlan::default();
    if !facts.is_built {
        troubles.extend(judge_room(facts));
        plan.notices.push(format!(
            "The first build takes about seven minutes on two processors, and {} GB of disk in {}. The next start takes \
             seconds.",
            BUILD_MB / 1000,
            facts.folder
        ));
        plan.jobs = fitting_jobs(facts);
        plan.notices.extend(plan.jobs.map(|jobs| {
            format!(
                "{} MB of memory are free: {jobs} of {} jobs at a time are built, which takes longer (CARGO_BUILD_JOBS \
                 names another number).",
                facts.memory.unwrap_or_default(),
                facts.jobs.unwrap_or_default()
            )
        }));
    }
    if troubles.is_empty() { Ok(plan) } else { Err(troubles) }
}

fn judge_git(git: Option<&str>) -> Option<String> {
    let Some(line) = git else {
        return Some("git is missing: apt-get install git".to_owned());
    };
    let version = read_version(line)?;
    (version < GIT).then(|| {
        format!(
            "this is Git {}.{}, and {}.{} or newer is needed: Debian has it from 12 on, Ubuntu from 24.04 on",
            version.0, version.1, GIT.0, GIT.1
        )
    })
}

/// The first two figures of a line such as `git version 2.47.3`.
fn read_version(line: &str) -> Option<(u64, u64)> {
    let begins_with_digit = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = line.split_whitespace().find(begins_with_digit)?;
    let mut figures = version.split('.').map(str::parse::<u64>);
    Some((figures.next()?.ok()?, figures.next()?.ok()?))
}

fn tell_namespaces(setting: Option<&str>) -> String {
    let way_out = setting.map_or_else(
        || {
            "a container runtime around this process may forbid them by its seccomp profile (docker: --privileged)"
                .to_owned()
        },
        |setting| format!("allow them with `sysctl {setting}` as root"),
    );
    format!("pods run in namespaces of their own, and the kernel refuses them here: {way_out}")
}

fn judge_room(facts: &MachineFacts) -> Vec<String> {
    let mut troubles = Vec::new();
    let needed = BUILD_MB.saturating_sub(facts.written);
    if let Some(free) = facts.disk.filter(|free| *free < needed) {
        troubles.push(format!(
            "{free} MB are free in {}, and the build needs {needed} more: make room there, or name another folder with \
             CARGO_TARGET_DIR",
            facts.folder
        ));
    }
    let room = facts.room.filter(|free| *free < RUN_DISK_MB && !facts.only_tells);
    if let Some(free) = room {
        troubles.push(format!(
            "{free} MB are free in {}, and the demo needs {RUN_DISK_MB} there: make room, or name another folder with \
             TMPDIR (--state for one that is kept)",
            facts.place
        ));
    }
    if let Some(free) = facts.memory.filter(|free| *free < DEMO_MB && !facts.only_tells) {
        troubles.push(format!(
            "{free} MB of memory are free, and the demo alone needs {DEMO_MB}: end other programs, or give this machine \
             or container more"
        ));
    }
    troubles
}

/// A number of jobs for which the memory suffices, if cargo would start more.
fn fitting_jobs(facts: &MachineFacts) -> Option<u64> {
    let jobs = (facts.memory?.saturating_sub(LARGEST_MB) / JOB_MB).max(1);
    (jobs < facts.jobs?).then_some(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> MachineFacts {
        MachineFacts {
            system: "linux".to_owned(),
            git: Some("git version 2.47.3".to_owned()),
            has_compiler: true,
            memory: Some(7000),
            disk: Some(50_000),
            folder: "/src/target".to_owned(),
            jobs: Some(2),
            ..MachineFacts::default()
        }
    }

    #[test]
    fn the_first_build_says_how_long_it_takes_and_how_much_disk() {
        let plan = judge_machine(&usual()).unwrap();
        assert_eq!(plan.jobs, None);
        assert_eq!(plan.notices.len(), 1);
        assert!(plan.notices[0].contains("seven minutes") && plan.notices[0].contains("4 GB"));
        let again = judge_machine(&MachineFacts { is_built: true, ..usual() });
        assert_eq!(again, Ok(BuildPlan::default()));
        let unknown = MachineFacts { memory: None, disk: None, ..usual() };
        assert!(judge_machine(&unknown).is_ok(), "what can't be known is no reason");
    }

    #[test]
    fn each_thing_that_is_in_the_way_is_named_with_the_way_out() {
        let refused = |setting: Option<&str>| NamespaceAccess::Refused(setting.map(str::to_owned));
        for (facts, parts) in [
            (MachineFacts { git: None, ..usual() }, ["git is missing", "apt-get install git"]),
            (
                MachineFacts { git: Some("git version 2.34.1".to_owned()), ..usual() },
                ["this is Git 2.34, and 2.39", "Debian has it"],
            ),
            (
                MachineFacts { has_compiler: false, ..usual() },
                ["no C compiler", "apt-get install gcc"],
            ),
            (
                MachineFacts { disk: Some(1200), written: 500, ..usual() },
                ["1200 MB are free in /src/target, and the build needs 3500", "CARGO_TARGET_DIR"],
            ),
            (MachineFacts { memory: Some(300), ..usual() }, ["300 MB of memory", "give this"]),
            (
                MachineFacts { room: Some(20), place: "/tmp".to_owned(), ..usual() },
                ["20 MB are free in /tmp, and the demo needs 300 there", "TMPDIR"],
            ),
            (
                MachineFacts { namespaces: refused(Some("a.b=1")), ..usual() },
                ["refuses them here", "sysctl a.b=1"],
            ),
            (
                MachineFacts { namespaces: refused(None), ..usual() },
                ["refuses them here", "seccomp"],
            ),
            (
                MachineFacts { system: "macos".to_owned(), ..usual() },
                ["this is macos", "Linux machine"],
            ),
        ] {
            let troubles = judge_machine(&facts).unwrap_err();
            assert_eq!(troubles.len(), 1, "{troubles:?}");
            assert!(parts.iter().all(|part| troubles[0].contains(part)), "{troubles:?}");
        }
        let asked = MachineFacts { git: None, memory: Some(300), only_tells: true, ..usual() };
        assert!(judge_machine(&asked).is_ok(), "its help needs neither Git nor room to run");
        let bare = MachineFacts { git: None, has_compiler: false, ..usual() };
        assert_eq!(judge_machine(&bare).unwrap_err().len(), 2, "all at once");
    }

    #[test]
    fn a_git_whose_version_is_not_understood_is_taken() {
        for line in ["git version 2.39.5 (Apple Git-154)", "git version 3.0", "git of my own"] {
            assert_eq!(judge_git(Some(line)), None, "{line}");
        }
    }

    #[test]
    fn fewer_jobs_are_built_at_a_time_where_memory_is_short() {
        let of = |memory: u64, jobs: u64| {
            fitting_jobs(&MachineFacts { memory: Some(memory), jobs: Some(jobs), ..usual() })
        };
        assert_eq!(of(3300, 2), None, "4 GB and two processors, as the README says");
        assert_eq!(of(1700, 2), Some(1));
        assert_eq!(of(1700, 1), None);
        assert_eq!(of(7000, 16), Some(6));
        let own = MachineFacts { memory: Some(1700), jobs: None, ..usual() };
        assert_eq!(fitting_jobs(&own), None);
        let small = judge_machine(&MachineFacts { memory: Some(1700), ..usual() }).unwrap();
        assert!(small.notices[1].contains("1 of 2 jobs"), "{:?}", small.notices);
    }
}
