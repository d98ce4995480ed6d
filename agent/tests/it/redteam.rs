//! Escapes that a hostile command tries: every way out that is known, in the real sandbox.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use codebutler_agent::tool_args as args;
use codebutler_agent::toolbox::client::ToolboxClient;
use codebutler_agent::toolbox::protocol::{ToolboxReply, ToolboxRequest};

use crate::toolbox::{Box, alive, bash, start, start_with, text};
use crate::world::until;

/// Runs `command` and returns what it printed with its verdict.
async fn run(toolbox: &ToolboxClient, command: &str) -> String {
    text(toolbox, bash(command, Some(60))).await
}

fn python(code: &str) -> String {
    format!("python3 - <<'PYTHON'\n{code}\nPYTHON")
}

/// Tries each command, and whether it may work, beside a file that is nobody's business.
async fn try_all(tries: &[(&str, bool)]) {
    let t = start().await;
    let outside = t.world.path("outside");
    fs::write(&outside, "mine\n").unwrap();
    fs::write(t.world.path("work/.scratch/seen-coder.json"), "{}").unwrap();
    run(&t.toolbox, "mkdir d && ln -s ../.. d/up").await;
    let root = t.world.dir.path().canonicalize().unwrap();
    for (command, works) in tries {
        let command = command.replace("ROOT", &root.display().to_string());
        let out = run(&t.toolbox, &command).await;
        assert_eq!(out.contains("[exit code 0,"), *works, "{command}: {out}");
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_writes_to_its_own_folders_and_reads_no_hidden_one() {
    try_all(&[
        ("echo x > inside && mv inside moved", true),
        ("echo x > $TMPDIR/a && ln $TMPDIR/a $TMPDIR/b && mv $TMPDIR/a .", true),
        ("echo x > $CARGO_TARGET_DIR.x", true),
        ("echo x > $HOME/.profile", true),
        ("echo x > /dev/null; head -c1 /dev/urandom > /dev/null; ls /usr/bin > /dev/null", true),
        ("echo x > ROOT/outside", false),
        ("truncate -s 0 ROOT/outside", false),
        ("rm -f ROOT/outside", false),
        ("mv ROOT/outside here", false),
        // Files that the toolbox keeps for itself.
        ("cat ../.scratch/seen-coder.json", false),
        ("ls ..", false),
        ("echo x > ../.git.lock", false),
        ("echo x > /etc/cron.d/x || echo x > /etc/passwd", false),
        // Devices and the disk below.
        ("mknod disk b 8 0", false),
        // Privileges: none to be had.
        ("grep -q '^NoNewPrivs:.*1' /proc/self/status && grep -q '^Seccomp:.*2' /proc/self/status", true),
        ("unshare -Ur true", false),
        ("mount -t tmpfs x .", false),
        ("chroot . true", false),
        ("kill -9 $PPID", false),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn symlinks_lead_nowhere_else_than_names_do() {
    try_all(&[
        ("echo x > d/up/outside", false),
        ("ln -s ROOT/outside link; echo x >> link", false),
        ("ln -s ROOT/work/.scratch hidden; cat hidden/seen-coder.json", false),
        ("ln -s / root; echo x > root/ROOT/outside", false),
        ("ln -s inside own && echo x > own && grep x inside", true),
    ])
    .await;
    // The tools resolve them before they look.
    let t = start().await;
    fs::write(t.world.path("outside"), "mine\n").unwrap();
    run(&t.toolbox, "ln -s ../../outside link; ln -s ../.. up; ln -s .git/config config").await;
    for path in ["link", "up/outside", "config"] {
        let read = args::ReadArgs { path: path.into(), ..args::ReadArgs::default() };
        let read = t.toolbox.ask(ToolboxRequest::Read(read)).await.unwrap();
        assert!(matches!(read, ToolboxReply::Refused(_)), "{path}: {read:?}");
        let write = args::WriteArgs { path: path.into(), content: "x".into() };
        let write = t.toolbox.ask(ToolboxRequest::Write(write)).await.unwrap();
        assert!(matches!(write, ToolboxReply::Refused(_)), "{path}: {write:?}");
    }
    assert_eq!(fs::read_to_string(t.world.path("outside")).unwrap(), "mine\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_link_makes_nothing_writable() {
    try_all(&[
        ("ln ROOT/outside hard && echo x >> hard", false),
        ("ln -L ROOT/outside hard", false),
        ("cp -l ROOT/outside hard", false),
        ("ln /etc/passwd hard && echo x >> hard", false),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proc_is_no_way_around() {
    try_all(&[
        ("echo x > /proc/self/root/ROOT/outside", false),
        ("echo x > /proc/self/cwd/../../outside", false),
        ("echo x > /proc/sys/kernel/core_pattern", false),
        ("cat /proc/$(awk '/PPid/ {print $2}' /proc/$PPID/status)/environ | tr '\\0' '\\n' | grep .", false),
        ("ls /proc/$PPID/fd/ && cat /proc/$PPID/environ > /dev/null", false),
        ("cat /proc/$PPID/mem > /dev/null", false),
        ("echo 0 > /proc/$PPID/oom_score_adj", false),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ptrace_abstract_sockets_and_other_calls_that_reach_out_fail() {
    let t = start().await;
    let abstract_name = format!("codebutler-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let code = format!(
        r#"
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = libc.syscall(*args)
    print(name, "open" if result >= 0 else os.strerror(ctypes.get_errno()))
parent = os.getppid()
libc.ptrace.restype = ctypes.c_long
print("ptrace", "open" if libc.ptrace(16, parent, 0, 0) == 0 else os.strerror(ctypes.get_errno()))
call("io_uring", 425, 1, 0)
call("bpf", 321, 0, 0, 0)
call("userfaultfd", 323, 0)
call("keyctl", 250, 0, -3, 0)
call("perf", 298, 0, 0, -1, -1, 0)
call("handle", 304, -100, 0, 0)
for kind, name in [(38, "alg"), (17, "packet"), (40, "vsock")]:
    try:
        socket.socket(kind, socket.SOCK_SEQPACKET if kind == 38 else socket.SOCK_DGRAM); print(name, "open")
    except OSError as e: print(name, e.strerror)
try:
    s = socket.socket(socket.AF_UNIX); s.connect("\0{abstract_name}"); print("abstract", "open")
except OSError as e: print("abstract", e.strerror)
a, b = socket.socketpair(); a.send(b"x"); print("socketpair", b.recv(1).decode())
s = socket.socket(); s.bind(("127.0.0.1", 0)); print("tcp", "bound")
import threading; th = threading.Thread(target=lambda: print("thread ran")); th.start(); th.join()
print("fork", os.waitpid(os.fork() or os._exit(0), 0)[1])
"#
    );
    let out = run(&t.toolbox, &python(&code)).await;
    let refused = "Operation not permitted";
    for line in [
        format!("ptrace {refused}"),
        "io_uring Function not implemented".to_owned(),
        format!("bpf {refused}"),
        format!("userfaultfd {refused}"),
        format!("keyctl {refused}"),
        format!("perf {refused}"),
        format!("handle {refused}"),
        format!("alg {refused}"),
        format!("packet {refused}"),
        format!("vsock {refused}"),
        format!("abstract {refused}"),
        "socketpair x".to_owned(),
        "tcp bound".to_owned(),
        "thread ran".to_owned(),
        "fork 0".to_owned(),
    ] {
        assert!(out.lines().any(|said| said == line), "{line}: {out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_bomb_ends_with_its_command() {
    let t = start().await;
    // NEVER an endless bomb here: root is exempt from RLIMIT_NPROC, and one took the machine down.
    // A bounded one: more processes than allowed, which end by themselves.
    let bomb = run(&t.toolbox, "for i in $(seq 1500); do sleep 20 & done; wait").await;
    assert!(bomb.contains("processes") || bomb.contains("fork"), "{bomb}");
    assert!(run(&t.toolbox, "echo next").await.starts_with("next\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_output_is_cut_and_a_huge_file_refused() {
    let t = start().await;
    // As long as it may take: a busy machine is no matter of this test.
    let flood = bash("yes flood | head -c 300000000; echo the end", Some(600));
    let flood = text(&t.toolbox, flood).await;
    assert!(flood.len() < 32_000 && flood.contains("the end\n[exit code 0"), "{}", flood.len());
    let huge = run(&t.toolbox, "truncate -s 9G sparse").await;
    assert!(!huge.contains("[exit code 0"), "{huge}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_does_not_outlive_its_command() {
    let t = start().await;
    let daemon = "setsid sh -c 'setsid sh -c \"echo \\$\\$ > $TMPDIR/daemon; exec sleep 300\" &' & \
                  while [ ! -s $TMPDIR/daemon ]; do :; done; echo left";
    let out = run(&t.toolbox, daemon).await;
    assert!(out.starts_with("left\n[exit code 0"), "{out}");
    until("the daemon is gone", || !alive(&t.world.path("tmp/daemon"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminal_escapes_leave_text_alone() {
    let t = start().await;
    let tricks =
        run(&t.toolbox, r"printf '\033]0;owned\007\033[2Jclean\r\033[31mshown\033[0m\n'").await;
    assert!(tricks.starts_with("shown\n"), "{tricks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifo_is_never_waited_for() {
    let t = start().await;
    run(&t.toolbox, "mkfifo pipe .codebutler-fifo; mkdir .codebutler; mkfifo .codebutler/pm.md")
        .await;
    let started = Instant::now();
    let read = args::ReadArgs { path: "pipe".into(), ..args::ReadArgs::default() };
    assert!(matches!(
        t.toolbox.ask(ToolboxRequest::Read(read)).await.unwrap(),
        ToolboxReply::Refused(_)
    ));
    let guide = ToolboxRequest::BaseGuide { file: "pm.md".into() };
    assert!(!matches!(t.toolbox.ask(guide).await.unwrap(), ToolboxReply::Guide(Some(_))));
    let grep = args::GrepArgs { pattern: "hello".into(), ..args::GrepArgs::default() };
    assert!(text(&t.toolbox, ToolboxRequest::Grep(grep)).await.contains("README:1:hello"));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_git_config_and_hooks_run_nothing() {
    let t = start().await;
    let hostile = "touch $TMPDIR/ran; printf '#!/bin/sh\\ntouch %s/ran2\\n' $TMPDIR > .git/hooks/pre-commit; \
        chmod +x .git/hooks/pre-commit; cp .git/hooks/pre-commit .git/hooks/pre-push; rm $TMPDIR/ran; \
        printf '[core]\\n fsmonitor = touch %s/ran3\\n editor = false\\n sshCommand = touch %s/ran4\\n\
        [filter \"x\"]\\n clean = touch %s/ran5\\n[url \"file:///\"]\\n insteadOf = \"\"\\n' \
        $TMPDIR $TMPDIR $TMPDIR >> .git/config; echo '* filter=x' > .gitattributes; echo new > new";
    run(&t.toolbox, hostile).await;
    let parent = text(&t.toolbox, ToolboxRequest::Head).await;
    let commit = || args::GitCommit { message: "Add new".into(), paths: None };
    let asked = ToolboxRequest::GitCommit { commit: commit(), parent: parent.clone() };
    let refused = t.toolbox.ask(asked).await.unwrap();
    assert!(
        matches!(&refused, ToolboxReply::Refused(why) if why.contains("filter=x, which is not run here")),
        "{refused:?}"
    );
    run(&t.toolbox, "rm .gitattributes").await;
    text(&t.toolbox, ToolboxRequest::GitCommit { commit: commit(), parent }).await;
    text(&t.toolbox, ToolboxRequest::GitDiff(args::GitDiff { base: None, path: None })).await;
    text(&t.toolbox, ToolboxRequest::GitPush).await;
    for name in ["ran", "ran2", "ran3", "ran4", "ran5"] {
        assert!(!t.world.path("tmp").join(name).exists(), "{name}");
    }
    assert!(t.world.git(&["log", "--format=%s", "codebutler/t"]).starts_with("Add new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_jobs_go_on_and_show_their_output() {
    let t = start().await;
    let begin = |command: &str| {
        let command = Some(command.to_owned());
        ToolboxRequest::Bash(args::BashArgs {
            command,
            background: Some(true),
            ..args::BashArgs::default()
        })
    };
    let look = |job: u32, kill: bool| {
        ToolboxRequest::Bash(args::BashArgs {
            job: Some(job),
            kill: Some(kill),
            ..args::BashArgs::default()
        })
    };
    let said = text(&t.toolbox, begin("echo up; echo $$ > $TMPDIR/job; while [ ! -e go ]; do sleep 0.01; done; echo went; exit 3")).await;
    assert!(said.contains("background job 1"), "{said}");
    until("the job runs", || t.world.path("tmp/job").exists()).await;
    // Another command comes and goes; the job stays.
    assert!(run(&t.toolbox, "echo other").await.starts_with("other\n"));
    let mut seen = String::new();
    while !seen.contains("up\n") {
        seen = text(&t.toolbox, look(1, false)).await;
    }
    assert!(seen.contains("[running for"), "{seen}");
    run(&t.toolbox, "touch go").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut rest = String::new();
    while !rest.contains("[exit code 3") {
        assert!(Instant::now() < deadline, "{rest}");
        rest += &text(&t.toolbox, look(1, false)).await;
    }
    assert!(rest.contains("went\n") && !rest.contains("up\n"), "{rest}");
    text(&t.toolbox, begin("echo $$ > $TMPDIR/two; sleep 300")).await;
    until("the second job runs", || {
        fs::read_to_string(t.world.path("tmp/two")).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    assert!(text(&t.toolbox, look(2, true)).await.contains("[killed on request"));
    until("it is gone", || !alive(&t.world.path("tmp/two"))).await;
    assert!(
        matches!(t.toolbox.ask(look(9, false)).await.unwrap(), ToolboxReply::Refused(why) if why.contains("known: 1, 2"))
    );
}

/// A role that may not change the worktree, with a file of another such role beside its own.
async fn reader() -> Box {
    let t = start_with(&["--worktree", "read-only", "--role", "reviewer"]).await;
    fs::create_dir_all(t.world.path("work/copy/pm/tree")).unwrap();
    fs::write(t.world.path("work/copy/pm/tree/note"), "theirs\n").unwrap();
    fs::create_dir_all(t.world.path("work/build")).unwrap();
    fs::write(t.world.path("work/build/lib"), "built\n").unwrap();
    t
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_only_reads_can_run_everything_and_change_nothing_of_others() {
    let t = reader().await;
    let root = t.world.dir.path().canonicalize().unwrap();
    let config = fs::read_to_string(t.world.tree(".git/config")).unwrap();
    let readme = fs::read_to_string(t.world.tree("README")).unwrap();
    for (command, works) in [
        ("grep hello README && echo changed > README && grep changed README", true),
        ("mkdir -p target && echo x > target/out && echo x > new.txt && rm README", true),
        ("echo x > $CARGO_TARGET_DIR.x && echo x > $TMPDIR/x && echo x > $HOME/x", true),
        ("git log --oneline && git status && git diff origin/main --stat", true),
        (
            "git checkout -q README && git add -A && git commit -qm mine && git reset -q --hard HEAD~1",
            true,
        ),
        ("cat ROOT/work/tree/README", true),
        ("echo x > ROOT/work/tree/README", false),
        ("touch ROOT/work/tree/new", false),
        ("rm -rf ROOT/work/tree/README", false),
        ("rm -rf ROOT/work/tree/.git/refs", false),
        ("echo x >> ROOT/work/tree/.git/config", false),
        ("git -C ROOT/work/tree commit --allow-empty -m x", false),
        ("git -C ROOT/work/tree gc --prune=now", false),
        ("git push ROOT/work/tree HEAD:refs/heads/x", false),
        ("ln -s ROOT/work/tree/README link && echo x > link", false),
        ("ln ROOT/work/tree/README hard && echo x > hard", false),
        ("mv ROOT/work/tree/README .", false),
        ("cat ROOT/work/copy/pm/tree/note", false),
        ("echo x > ROOT/work/copy/pm/tree/note", false),
        ("ls ROOT/work/copy", false),
        ("cat ROOT/work/build/lib", false),
        ("echo x > ROOT/work/build/lib", false),
        ("echo x > ROOT/work/copy/reviewer/.setup.json", false),
        (
            "rm -rf ROOT/work/copy/reviewer/tree || mv ROOT/work/copy/reviewer/tree ROOT/work/copy/reviewer/x",
            false,
        ),
    ] {
        let command = command.replace("ROOT", &root.display().to_string());
        let out = run(&t.toolbox, &command).await;
        assert_eq!(out.contains("[exit code 0,"), works, "{command}: {out}");
    }
    assert_eq!(fs::read_to_string(t.world.tree("README")).unwrap(), readme);
    assert_eq!(fs::read_to_string(t.world.tree(".git/config")).unwrap(), config);
    assert_eq!(fs::read_to_string(t.world.path("work/build/lib")).unwrap(), "built\n");
    let write =
        ToolboxRequest::Write(args::WriteArgs { path: "README".into(), content: "x".into() });
    assert!(matches!(t.toolbox.ask(write).await.unwrap(), ToolboxReply::Refused(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_in_a_copy_lead_nothing_into_the_worktree_when_it_is_brought_up_to_date() {
    let t = reader().await;
    let root = t.world.dir.path().canonicalize().unwrap();
    fs::create_dir_all(t.world.tree("src")).unwrap();
    fs::write(t.world.tree("src/a"), "one\n").unwrap();
    run(&t.toolbox, "cat src/a").await;
    let trap = format!(
        "rm -rf src .git && ln -s {0}/work/build src && ln -s {0}/work/tree/.git .git",
        root.display()
    );
    assert!(run(&t.toolbox, &trap).await.contains("[exit code 0,"));
    fs::write(t.world.tree("src/a"), "two\n").unwrap();
    fs::write(t.world.tree("src/b"), "new\n").unwrap();
    let out = run(&t.toolbox, "cat src/b; ls -l").await;
    assert!(out.contains("new\n"), "{out}");
    assert!(!t.world.path("work/build/a").exists() && !t.world.path("work/build/b").exists());
    assert!(t.world.tree(".git/HEAD").is_file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_run_in_a_copy_is_evidence_for_what_it_tested() {
    let t = reader().await;
    let test = |command: &str| {
        ToolboxRequest::Test(args::BashArgs {
            command: Some(command.into()),
            ..args::BashArgs::default()
        })
    };
    let tested =
        async |command: &str| match t.toolbox.ask(test(command)).await.unwrap().with_notes().0 {
            ToolboxReply::Tested { text, run } => (text, run),
            other => panic!("{other:?}"),
        };
    let head = crate::world::git(&t.world.tree(""), &["rev-parse", "HEAD^{tree}"]);
    // Files that a command has left in the copy are not what is tested.
    run(&t.toolbox, "echo forged > README && echo x > helper").await;
    let (told, seen) = tested("grep hello README && test ! -e helper").await;
    assert_eq!((seen.exit_code, seen.tree.as_deref()), (Some(0), Some(head.trim())), "{told}");
    let (_, changed) = tested("echo x > README").await;
    assert_eq!((changed.exit_code, changed.tree), (Some(0), None));
    // The worktree's own changes are tested, committed or not.
    fs::write(t.world.tree("README"), "other\n").unwrap();
    let (_, other) = tested("grep other README").await;
    assert_eq!(other.exit_code, Some(0));
    assert!(other.tree.is_some_and(|tree| tree != head.trim()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_set_up_before_the_first_command_that_builds_and_not_for_one_that_looks() {
    let t = reader().await;
    let command = Some("mkdir -p made && echo x >> made/log".to_owned());
    let plan = t.toolbox.ask(ToolboxRequest::PlanSetUp { command }).await.unwrap();
    assert!(matches!(plan, ToolboxReply::SetUp(None)), "{plan:?}");
    let out = run(&t.toolbox, "cat made/log || git log --oneline").await;
    assert!(!out.contains("set up first"), "{out}");
    // Of no account what comes of them: they build.
    let first = run(&t.toolbox, "make -s nothing; cat made/log").await;
    assert!(first.contains("\n[note] The copy was set up first, with `mkdir"), "{first}");
    let second = run(&t.toolbox, "make -s nothing; cat made/log").await;
    assert!(!second.contains("set up first") && second.contains("x\n[exit code 0"), "{second}");
    assert!(!t.world.tree("made").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_landlock_a_role_that_only_reads_runs_nothing() {
    let t = start_with(&["--worktree", "read-only", "--sandbox", "runtime"]).await;
    let reply = t.toolbox.ask(bash("true", None)).await.unwrap();
    assert!(matches!(&reply, ToolboxReply::Refused(why) if why.contains("Landlock")), "{reply:?}");
}
