//! Facts about this machine, read from `/proc` and from small programs that every system has. Each may be unknown.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::config::configured_jobs;
use super::options::GivenOptions;

/// Cargo's own variable for the number of crates that are compiled side by side.
pub(crate) const JOBS: &str = "CARGO_BUILD_JOBS";
/// Mount point of the cgroup file system, which has the limits of this container.
const CONTAINER: &str = "/sys/fs/cgroup";
/// Messages of the kernel with which it refuses namespaces.
const REFUSALS: [&str; 3] =
    ["Operation not permitted", "Permission denied", "No space left on device"];
/// Kernel settings that forbid namespaces to users, the value that does, and one that allows them.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];

/// The answer to the question whether pods can have namespaces of their own here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NamespaceAccess {
    /// They can, or nobody knows.
    #[default]
    NotRefused,
    /// The kernel refuses them; with the setting that would allow them, if it is one.
    Refused(Option<String>),
}

/// All that decides whether the demo can be built and run here.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineFacts {
    /// Name of the operating system, as Rust has it.
    pub system: String,
    /// The line with which Git names its version; none if it can't be run.
    pub git: Option<String>,
    /// True if there is a C compiler under its usual name.
    pub has_compiler: bool,
    pub namespaces: NamespaceAccess,
    /// MB of memory that can be used.
    pub memory: Option<u64>,
    /// MB that are free in the folder of builds.
    pub disk: Option<u64>,
    /// MB that an earlier build has written there.
    pub written: u64,
    /// Path of the folder of builds.
    pub folder: String,
    /// MB that are free where the demo is going to write, and that folder.
    pub room: Option<u64>,
    pub place: String,
    /// Number of jobs that cargo starts of itself; none if the user says for this build how many there are.
    pub jobs: Option<u64>,
    /// True if the demo was built before: what follows takes seconds.
    pub is_built: bool,
    /// True if the demo only tells about itself, for which nothing has to run.
    pub only_tells: bool,
}

/// Looks at this machine. `programs` is the folder into which cargo has put this program.
pub(crate) fn gather_facts(programs: &Path, options: &GivenOptions) -> MachineFacts {
    let folder = options.target_folder();
    let folder = folder.as_deref().or(programs.parent()).unwrap_or(programs);
    let is_built = folder.join(options.profile_folder()).join("demo").is_file();
    let read = |path: &str| fs::read_to_string(path).ok();
    let mut facts = MachineFacts {
        system: std::env::consts::OS.to_owned(),
        git: first_line("git", &["--version"]),
        has_compiler: names_compiler(std::env::vars_os().map(|(name, _)| name)) || is_there("cc"),
        folder: folder.display().to_string(),
        jobs: (std::env::var_os(JOBS).is_none() && !options.names_jobs()).then(count_jobs),
        is_built,
        only_tells: options.asks_demo(),
        ..MachineFacts::default()
    };
    let is_elsewhere = std::env::var_os("CODEBUTLER_OUTSIDE").is_some();
    if !is_elsewhere && !options.uses_other_nodes() && !facts.only_tells {
        facts.namespaces = ask_for_namespaces(&read);
    }
    if !is_built {
        facts.memory = free_memory();
        facts.disk = free_disk(folder);
        let place = options.demo_value("--state").map(PathBuf::from);
        let place = place.unwrap_or_else(std::env::temp_dir);
        facts.room = free_disk(&place);
        facts.place = place.display().to_string();
        facts.written = run("du", &["-sk", &facts.folder])
            .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib >> 10);
    }
    facts
}

/// True if the user names a compiler, as one does where it is not called `cc`: for all systems, or for one of them.
fn names_compiler(mut variables: impl Iterator<Item = OsString>) -> bool {
    variables.any(|name| {
        let name = name.to_string_lossy();
        ["CC", "HOST_CC", "TARGET_CC"].contains(&&*name) || name.starts_with("CC_")
    })
}

/// Number of crates that cargo compiles side by side here if nobody says otherwise.
fn count_jobs() -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let configured = std::env::current_dir().ok().and_then(|folder| {
        configured_jobs(&folder, home, |path: &Path| fs::read_to_string(path).ok())
    });
    count_of(configured, processors)
}

/// A negative number is one of processors that stay free.
fn count_of(configured: Option<i64>, processors: u64) -> u64 {
    match configured {
        Some(jobs @ 1..) => jobs.unsigned_abs(),
        Some(jobs @ ..0) => processors.saturating_sub(jobs.unsigned_abs()).max(1),
        Some(0) | None => processors,
    }
}

fn start(program: &str, arguments: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output()
}

fn is_there(program: &str) -> bool {
    start(program, &["--version"]).is_ok()
}

/// Output of a command that ended well.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = start(program, arguments).ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    run(program, arguments)?.lines().next().map(|line| line.trim().to_owned())
}

/// Asks the kernel for the namespaces that a pod has.
fn ask_for_namespaces(read: &impl Fn(&str) -> Option<String>) -> NamespaceAccess {
    let wanted = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "true"];
    let Ok(output) = start("unshare", &wanted) else { return NamespaceAccess::NotRefused };
    let said = String::from_utf8_lossy(&output.stderr);
    // An `unshare` that lacks one of the options knows nothing.
    if output.status.success() || !REFUSALS.iter().any(|refusal| said.contains(refusal)) {
        return NamespaceAccess::NotRefused;
    }
    NamespaceAccess::Refused(find_setting(read))
}

fn find_setting(read: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_off = |(name, bad, _): &&(&str, &str, &str)| {
        let value = read(&format!("/proc/sys/{}", name.replace('.', "/")));
        value.is_some_and(|value| value.trim() == *bad)
    };
    SETTINGS.iter().find(is_off).map(|(name, _, good)| format!("{name}={good}"))
}

/// MB that are free where a folder is, or is going to be.
pub fn free_disk(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    let there = folder.ancestors().find(|path| path.exists())?;
    run("df", &["-Pk", &there.display().to_string()]).and_then(|text| read_free(&text))
}

/// MB in the fourth column of what `df -Pk` prints.
fn read_free(text: &str) -> Option<u64> {
    let line = text.lines().nth(1)?;
    // The first column is a name, and may have spaces: columns count from the one with a percentage.
    let columns: Vec<&str> = line.split_whitespace().collect();
    let percentage = columns.iter().position(|column| column.ends_with('%'))?;
    let free: u64 = columns.get(percentage.checked_sub(1)?)?.parse().ok()?;
    Some(free >> 10)
}

/// MB of memory that this machine has, or that its container may still take, if that is less.
pub fn free_memory() -> Option<u64> {
    count_memory(|path| fs::read_to_string(path).ok())
}

fn count_memory(read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| field(&text, "MemAvailable:"));
    let machine = machine.map(|kib| kib >> 10);
    let figure = |name: &str| read(&format!("{CONTAINER}/{name}"))?.trim().parse::<u64>().ok();
    let container = figure("memory.max").zip(figure("memory.current")).map(|(limit, used)| {
        let stat = read(&format!("{CONTAINER}/memory.stat")).unwrap_or_default();
        // Copies of files go when room is needed, also those that were read more than once, such as by a build.
        let files = ["inactive_file", "active_file", "slab_reclaimable"].iter();
        let spare = files.filter_map(|name| field(&stat, name)).fold(0, u64::saturating_add);
        limit.saturating_sub(used.saturating_sub(spare)) >> 20
    });
    machine.into_iter().chain(container).min()
}

/// The figure behind a name, in a list of them by line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_room_is_read_from_what_df_prints() {
        let head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n";
        let of = |line: &str| read_free(&format!("{head}{line}\n"));
        assert_eq!(of("/dev/vda 263174212 16777216 79691776 18% /"), Some(77_824));
        assert_eq!(of("my disk 100 50 2048 50% /a place"), Some(2));
        assert_eq!(of("overlay - - - - /"), None);
        assert_eq!(read_free(""), None);
    }

    #[test]
    fn the_setting_that_forbids_namespaces_is_named() {
        let of = |known: &'static str, value: &'static str| {
            find_setting(&|path: &str| (path == known).then(|| value.to_owned()))
        };
        let restricted = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
        let allowed = Some("kernel.apparmor_restrict_unprivileged_userns=0".to_owned());
        assert_eq!(of(restricted, "1\n"), allowed);
        assert_eq!(of(restricted, "0\n"), None);
        assert_eq!(
            of("/proc/sys/user/max_user_namespaces", "0\n").as_deref(),
            Some("user.max_user_namespaces=10000")
        );
    }

    #[test]
    fn a_container_counts_with_what_it_may_still_take() {
        let of = |container: &[(&str, &str)]| {
            count_memory(|path| {
                if path == "/proc/meminfo" {
                    return Some("MemTotal: 1 kB\nMemAvailable:    8192000 kB\n".to_owned());
                }
                let name = path.rsplit('/').next()?;
                let found = container.iter().find(|(known, _)| *known == name)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!(of(&[]), Some(8000));
        assert_eq!(of(&[("memory.max", "max\n"), ("memory.current", "5\n")]), Some(8000));
        let small = [("memory.max", "1073741824\n"), ("memory.current", "943718400\n")];
        assert_eq!(of(&small), Some(124));
        // A build was interrupted there: what it read and wrote fills the rest.
        let stat = "anon 209715200\ninactive_file 209715200\nactive_file 419430400\nslab_reclaimable 104857600\n";
        let cached = [small[0], small[1], ("memory.stat", stat)];
        assert_eq!(of(&cached), Some(824));
    }

    #[test]
    fn a_compiler_of_another_name_is_one() {
        for (name, is_one) in [
            ("CC", true),
            ("HOST_CC", true),
            ("CC_x86_64-unknown-linux-gnu", true),
            ("CC_x86_64_unknown_linux_gnu", true),
            ("CCACHE_DIR", false),
        ] {
            assert_eq!(names_compiler([OsString::from(name)].into_iter()), is_one, "{name}");
        }
    }

    #[test]
    fn cargo_starts_as_many_jobs_as_its_configuration_says() {
        let of = |configured| count_of(configured, 8);
        assert_eq!([of(None), of(Some(2)), of(Some(-3)), of(Some(-9))], [8, 2, 5, 1]);
    }
}
