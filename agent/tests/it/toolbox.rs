//! The toolbox as a process: one connection, and nothing that a command starts outlives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use codebutler_agent::tool_args as args;
use codebutler_agent::toolbox::client::{ToolboxClient, ToolboxError};
use codebutler_agent::toolbox::protocol::{
    CommitAuthor, ToolboxHello, ToolboxReply, ToolboxRequest,
};
use codebutler_guides::voice::annotate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tokio::process::Child;

use crate::world::{World, in_order, until};

pub(crate) struct Box {
    pub world: World,
    process: Child,
    pub toolbox: ToolboxClient,
    socket: PathBuf,
}

pub(crate) fn hello(world: &World) -> ToolboxHello {
    ToolboxHello {
        relay_url: format!("file://{}", world.path("remote").display()),
        proxy: String::new(),
        branch: "codebutler/t".into(),
        base_branch: "main".into(),
        sparse: vec![],
        author: CommitAuthor {
            name: "CodeButler PM".into(),
            email: "pm@codebutler.invalid".into(),
        },
        role: "pm".into(),
    }
}

pub(crate) async fn start() -> Box {
    start_with(&[]).await
}

pub(crate) async fn start_with(args: &[&str]) -> Box {
    let world = World::new(in_order(vec![])).await;
    let socket = world.path("run/toolbox.sock");
    let process = world.toolbox_command(&socket).args(args).spawn().unwrap();
    let toolbox = ToolboxClient::connect(&socket).await.unwrap();
    toolbox.ask(ToolboxRequest::Hello(hello(&world))).await.unwrap();
    assert!(matches!(
        toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await.unwrap(),
        ToolboxReply::Text(_)
    ));
    Box { world, process, toolbox, socket }
}

pub(crate) fn bash(command: &str, timeout: Option<u32>) -> ToolboxRequest {
    ToolboxRequest::Bash(args::BashArgs {
        command: Some(command.into()),
        timeout,
        ..args::BashArgs::default()
    })
}

pub(crate) async fn text(toolbox: &ToolboxClient, request: ToolboxRequest) -> String {
    let (reply, notes) = toolbox.ask(request).await.unwrap().with_notes();
    match reply {
        ToolboxReply::Text(text) | ToolboxReply::Started { text, .. } => annotate(&text, &notes),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(pid), None).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_shows_what_it_did() {
    let t = start().await;
    let out = text(&t.toolbox, bash("echo out; echo err >&2; pwd; cat; (exit 3)", None)).await;
    let tree = t.world.tree("").canonicalize().unwrap();
    assert!(out.starts_with(&format!("out\nerr\n{}\n[exit code 3, ", tree.display())), "{out}");
    let env = text(&t.toolbox, bash("env | sort", None)).await;
    for (name, there) in [
        ("KUBERNETES_", false),
        ("CODEBUTLER_", false),
        ("HOME=", true),
        ("TERM=dumb", true),
        ("GIT_CONFIG_SYSTEM=", true),
        ("GIT_COMMITTER_NAME=CodeButler PM", true),
        ("CARGO_TARGET_DIR=", true),
    ] {
        assert_eq!(env.contains(name), there, "{name}: {env}");
    }
    let long = text(&t.toolbox, bash("seq 1 100000", None)).await;
    assert!(
        long.len() < 31_000 && long.starts_with("1\n2\n") && long.contains("99999\n100000\n"),
        "{}",
        long.len()
    );
    let signal = text(&t.toolbox, bash("kill -TERM $$", None)).await;
    assert!(signal.contains("signal"), "{signal}");
}

/// An image as the official ones of Rust and Go: their folders are the image's, and not a command's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_have_a_place_whatever_folders_the_image_names() {
    let world = World::new(in_order(vec![])).await;
    let (socket, image) = (world.path("run/toolbox.sock"), world.path("image"));
    let cargo = image.join("cargo");
    fs::create_dir_all(cargo.join("bin")).unwrap();
    fs::write(cargo.join("config.toml"), "[net]\n").unwrap();
    let _process = world
        .toolbox_command(&socket)
        .env("CARGO_HOME", &cargo)
        .env("GOPATH", image.join("go"))
        .env("PIP_CACHE_DIR", image.join("pip"))
        .spawn()
        .unwrap();
    let toolbox = ToolboxClient::connect(&socket).await.unwrap();
    toolbox.ask(ToolboxRequest::Hello(hello(&world))).await.unwrap();
    toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await.unwrap();
    let download = "mkdir -p $CARGO_HOME/registry/src $GOPATH/pkg/mod \
                    $PIP_CACHE_DIR && cat $CARGO_HOME/config.toml && touch $CARGO_HOME/registry/src/a";
    let out = text(&toolbox, bash(download, None)).await;
    assert!(out.starts_with("[net]\n[exit code 0"), "{out}");
    // Beside the worktree, where all roles of the conversation find it.
    assert!(world.path("work/build/cargo/registry/src/a").exists());
    assert!(!image.join("go").exists() && !image.join("pip").exists());
    let outside = text(&toolbox, bash(&format!("touch {}/a", cargo.display()), None)).await;
    assert!(!outside.contains("[exit code 0"), "{outside}");
}

/// An image that brings everything: more than could be copied before the agent gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_and_toolchains_of_an_image_keep_nobody_waiting() {
    let world = World::new(in_order(vec![])).await;
    let (socket, image) = (world.path("run/toolbox.sock"), world.path("image"));
    let cache = image.join("cargo/registry/cache/i");
    fs::create_dir_all(&cache).unwrap();
    fs::File::create(cache.join("a-1.0.0.crate")).unwrap().set_len(1 << 40).unwrap();
    let rustc = image.join("rustup/toolchains/1.90.0/bin/rustc");
    fs::create_dir_all(rustc.parent().unwrap()).unwrap();
    fs::write(&rustc, "#!/bin/sh\n").unwrap();
    let _process = world
        .toolbox_command(&socket)
        .env("CARGO_HOME", image.join("cargo"))
        .env("RUSTUP_HOME", image.join("rustup"))
        .env("MAVEN_OPTS", "-Xmx1g")
        .spawn()
        .unwrap();
    let toolbox = ToolboxClient::connect(&socket).await.unwrap();
    let proxy = "http://127.0.0.1:9".to_owned();
    toolbox.ask(ToolboxRequest::Hello(ToolboxHello { proxy, ..hello(&world) })).await.unwrap();
    toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await.unwrap();
    // One that builds, so that it waits for the links.
    let build =
        "cargo build --offline >/dev/null 2>&1; stat -L -c %s $CARGO_HOME/registry/cache/i/*.crate";
    let out = text(&toolbox, bash(build, None)).await;
    assert!(out.starts_with("1099511627776\n[exit code 0"), "{out}");
    let copied = world.path("work/build/cargo/registry/cache/i/a-1.0.0.crate");
    assert!(copied.symlink_metadata().unwrap().is_symlink());

    let more =
        "cat $RUSTUP_HOME/toolchains/1.90.0/bin/rustc && touch $RUSTUP_HOME/toolchains/1.91.0";
    let out = text(&toolbox, bash(more, None)).await;
    assert!(out.starts_with("#!/bin/sh\n[exit code 0"), "{out}");
    let installed = "mkdir -p $GOPATH/bin && printf '#!/bin/sh\necho installed' > $GOPATH/bin/own-tool && \
                     chmod +x $GOPATH/bin/own-tool && own-tool";
    let out = text(&toolbox, bash(installed, None)).await;
    assert!(out.starts_with("installed\n"), "{out}");
    let out = text(&toolbox, bash("echo $MAVEN_OPTS; echo $GRADLE_OPTS", None)).await;
    let mut lines = out.lines();
    let (maven, gradle) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(maven.starts_with("-Xmx1g ") && maven.contains("maven.repo.local"), "{maven}");
    for options in [maven, gradle] {
        assert!(options.contains("-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"), "{options}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_long_output_can_be_read_afterwards() {
    let t = start().await;
    let long = text(&t.toolbox, bash("seq 1 100000", None)).await;
    let (_, rest) = long.split_once("Read `").unwrap();
    let path = rest.split('`').next().unwrap();
    let read = args::ReadArgs {
        path: path.into(),
        offset: Some(50_000),
        limit: Some(1),
        ..Default::default()
    };
    let part = text(&t.toolbox, ToolboxRequest::Read(read)).await;
    assert!(part.starts_with(" 50000\t50000\n"), "{part}");
    let found = text(&t.toolbox, bash(&format!("grep -c 9 {path}"), None)).await;
    assert!(found.contains("[exit code 0"), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_in_a_folder_of_the_worktree_and_nowhere_else() {
    let t = start().await;
    text(&t.toolbox, bash("mkdir -p web/src && ln -s /tmp out && touch file", None)).await;
    let within = |folder: &str| {
        ToolboxRequest::Bash(args::BashArgs {
            command: Some("basename $PWD".into()),
            workdir: Some(folder.into()),
            ..args::BashArgs::default()
        })
    };
    assert!(text(&t.toolbox, within("web/src")).await.starts_with("src\n"));
    let absolute = t.world.tree("web").canonicalize().unwrap();
    assert!(text(&t.toolbox, within(absolute.to_str().unwrap())).await.starts_with("web\n"));
    for folder in ["..", "/", "out", ".git", "nowhere", "file"] {
        let reply = t.toolbox.ask(within(folder)).await.unwrap();
        assert!(matches!(reply, ToolboxReply::Refused(_)), "{folder}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_job_can_be_waited_for() {
    let t = start().await;
    let job = |command: &str| {
        ToolboxRequest::Bash(args::BashArgs {
            command: Some(command.into()),
            background: Some(true),
            ..args::BashArgs::default()
        })
    };
    let look = |job, wait| {
        ToolboxRequest::Bash(args::BashArgs {
            job: Some(job),
            wait: Some(wait),
            ..args::BashArgs::default()
        })
    };
    text(&t.toolbox, job("until [ -e go ]; do sleep 0.05; done; echo built")).await;
    let running = text(&t.toolbox, look(1, 1)).await;
    assert!(running.starts_with("[running for "), "{running}");
    let started = Instant::now();
    let (ended, _) =
        tokio::join!(text(&t.toolbox, look(1, 500)), text(&t.toolbox, bash("touch go", None)));
    assert!(ended.starts_with("built\n[exit code 0"), "{ended}");
    assert!(started.elapsed() < Duration::from_mins(1));
    // A caller who stops waiting takes no output along.
    text(&t.toolbox, job("echo early; sleep 300")).await;
    let waiting = t.toolbox.ask(look(2, 500));
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    let shown = text(&t.toolbox, look(2, 0)).await;
    assert!(shown.starts_with("early\n[running"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_the_image_lacks_is_named() {
    let t = start().await;
    for (command, named) in [
        ("cargo-of-another-image test", true),
        ("echo x; exit 127", false),
        ("./no-such-script", false),
        ("cargo-of-another-image || true", false),
    ] {
        let out = text(&t.toolbox, bash(command, None)).await;
        let said = "[note] `cargo-of-another-image` is not in this role's workspace image";
        assert_eq!(out.contains(said), named, "{out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_hears_that_the_kernel_ended_a_process_for_want_of_memory() {
    let group = tempfile::tempdir().unwrap();
    let path = group.path().to_str().unwrap();
    // The command counts as the kernel would.
    let counted = |file: &str, limit: &str| {
        fs::create_dir_all(group.path().join(file).parent().unwrap()).unwrap();
        fs::write(group.path().join(limit), "2147483648\n").unwrap();
        fs::write(group.path().join(file), "oom 7\noom_kill 3\n").unwrap();
        format!("printf 'oom 9\\noom_kill 5\\n' > {path}/{file}")
    };
    let t = start_with(&["--cgroup", path, "--writable", path]).await;
    for (file, limit) in [
        ("memory/memory.oom_control", "memory/memory.limit_in_bytes"),
        ("memory.events", "memory.max"),
    ] {
        let command = counted(file, limit);
        let out = text(&t.toolbox, bash("true", None)).await;
        assert!(!out.contains("kernel"), "{out}");
        let out = text(&t.toolbox, bash(&command, None)).await;
        let said = "The kernel ended 2 processes here: commands needed more memory than the \
                    2 GiB that this container may have. Do less at once";
        assert!(out.contains(&format!("\n[note] {said}")) && out.contains("[exit code 0"), "{out}");
        assert!(!text(&t.toolbox, bash("true", None)).await.contains("kernel"));

        let job = args::BashArgs {
            command: Some(counted(file, limit)),
            background: Some(true),
            ..args::BashArgs::default()
        };
        let started = t.toolbox.ask(ToolboxRequest::Bash(job)).await.unwrap();
        let ToolboxReply::Started { job, .. } = started else { panic!("{started:?}") };
        t.toolbox.ask(ToolboxRequest::JobEnded { job }).await.unwrap();
        let look = args::BashArgs { job: Some(job), ..args::BashArgs::default() };
        let out = text(&t.toolbox, ToolboxRequest::Bash(look)).await;
        assert!(out.contains(said), "{out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worktree_that_is_too_large_to_know_is_said_so() {
    let t = start().await;
    text(&t.toolbox, bash("truncate -s 2G big", None)).await;
    let test = args::BashArgs { command: Some("true".into()), ..args::BashArgs::default() };
    let ToolboxReply::Tested { run, .. } = t.toolbox.ask(ToolboxRequest::Test(test)).await.unwrap()
    else {
        panic!()
    };
    assert_eq!((run.exit_code, &run.tree, run.unknown), (Some(0), &None, true));
    let standing = ToolboxRequest::Standing { tested: None };
    assert!(matches!(t.toolbox.ask(standing).await.unwrap(), ToolboxReply::Standing(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_of_the_toolboxs_log_says_whose_it_is() {
    let world = World::new(in_order(vec![])).await;
    let socket = world.path("run/toolbox.sock");
    let log = fs::File::create(world.path("log")).unwrap();
    let mut process = world
        .toolbox_command(&socket)
        .envs([("CODEBUTLER_ROLE", "coder"), ("CODEBUTLER_THREAD", "shop-1-000001")])
        .envs([("CODEBUTLER_LOG", "info"), ("CODEBUTLER_LOG_FORMAT", "json")])
        .stderr(Stdio::from(log))
        .spawn()
        .unwrap();
    let toolbox = ToolboxClient::connect(&socket).await.unwrap();
    toolbox.ask(ToolboxRequest::Hello(hello(&world))).await.unwrap();
    toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await.unwrap();
    // Said by a thread of its own: a lock that nobody holds.
    fs::write(world.tree(".git/index.lock"), "").unwrap();
    toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await.unwrap();
    assert!(!text(&toolbox, bash("env", None)).await.contains("CODEBUTLER_"));
    drop(toolbox);
    assert!(process.wait().await.unwrap().success());
    let lines = fs::read_to_string(world.path("log")).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|l| l["fields"]["message"] == "stale_lock_removed"), "{lines:?}");
    assert!(lines.len() >= 3, "{lines:?}");
    for line in &lines {
        assert_eq!(
            (&line["span"]["role"], &line["span"]["thread"]),
            (&"coder".into(), &"shop-1-000001".into())
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_out_kills_grandchildren_wherever_they_hide() {
    let t = start().await;
    let hide = "(sleep 300 & echo $! > $TMPDIR/plain; setsid sh -c 'echo $$ > $TMPDIR/session; sleep 300' & \
                setsid sh -c '(sh -c \"echo \\$\\$ > $TMPDIR/orphan; exec sleep 300\" &)'; wait)";
    let started = Instant::now();
    let out = text(&t.toolbox, bash(hide, Some(1))).await;
    assert!(out.contains("[killed after 1 s"), "{out}");
    assert!(started.elapsed() < Duration::from_secs(20));
    for name in ["plain", "session", "orphan"] {
        let file = t.world.path("tmp").join(name);
        until(name, || !alive(&file)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_in_the_background_ends_with_its_command() {
    let t = start().await;
    let started = Instant::now();
    let out =
        text(&t.toolbox, bash("setsid sleep 300 & echo $! > $TMPDIR/pid; echo done", None)).await;
    assert!(out.starts_with("done\n[exit code 0"), "{out}");
    assert!(started.elapsed() < Duration::from_secs(20));
    until("the background process is gone", || !alive(&t.world.path("tmp/pid"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_is_killed_and_the_next_one_runs() {
    let t = start().await;
    let pid = t.world.path("tmp/pid");
    {
        let asked = t.toolbox.ask(bash("echo $$ > $TMPDIR/pid; sleep 300", None));
        tokio::pin!(asked);
        let written = || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'));
        while !written() {
            let soon = tokio::time::timeout(Duration::from_millis(10), &mut asked).await;
            assert!(soon.is_err(), "{soon:?}");
        }
    }
    until("the command is gone", || !alive(&pid)).await;
    assert!(text(&t.toolbox, bash("echo next", None)).await.starts_with("next\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_side_by_side() {
    let t = start().await;
    let read = || {
        t.toolbox.ask(ToolboxRequest::Read(args::ReadArgs {
            path: "README".into(),
            ..Default::default()
        }))
    };
    let slow = t.toolbox.ask(bash("sleep 300", Some(600)));
    tokio::select! {
        _ = slow => panic!("too early"),
        reads = futures::future::join_all([read(), read(), read()]) => {
            assert!(reads.iter().all(|r| matches!(r, Ok(ToolboxReply::Text(text)) if text.contains("hello"))), "{reads:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_connection_and_nothing_outlives_it() {
    let mut t = start().await;
    assert!(!t.socket.exists());
    assert!(UnixStream::connect(&t.socket).await.is_err());
    let command = t.toolbox.ask(bash("echo $$ > $TMPDIR/pid; setsid sleep 300 & sleep 300", None));
    let pid = t.world.path("tmp/pid");
    tokio::select! {
        _ = command => panic!("too early"),
        () = until("the command runs", || fs::read_to_string(&pid).is_ok_and(|t| t.ends_with('\n'))) => {}
    }
    drop(t.toolbox);
    let status =
        tokio::time::timeout(Duration::from_secs(20), t.process.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    until("the command is gone", || !alive(&pid)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_it_with_its_commands() {
    let mut t = start().await;
    let pid = t.world.path("tmp/pid");
    let id = i32::try_from(t.process.id().unwrap()).unwrap();
    let command = t.toolbox.ask(bash("echo $$ > $TMPDIR/pid; sleep 300", None));
    tokio::pin!(command);
    tokio::select! {
        _ = &mut command => panic!("too early"),
        () = until("the command runs", || fs::read_to_string(&pid).is_ok_and(|t| t.ends_with('\n'))) => {}
    }
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    assert!(matches!(command.await, Err(ToolboxError::Gone)));
    assert!(t.process.wait().await.unwrap().success());
    assert!(!alive(&pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_outside_and_frames_too_long_are_refused() {
    let t = start().await;
    for path in ["../token", "/etc/passwd", ".git/config", "a/../../token"] {
        let read = ToolboxRequest::Read(args::ReadArgs { path: path.into(), ..Default::default() });
        assert!(matches!(t.toolbox.ask(read).await.unwrap(), ToolboxReply::Refused(_)), "{path}");
        let write =
            ToolboxRequest::Write(args::WriteArgs { path: path.into(), content: String::new() });
        assert!(matches!(t.toolbox.ask(write).await.unwrap(), ToolboxReply::Refused(_)), "{path}");
    }
    let content = "x".repeat(9 * 1024 * 1024);
    let write = ToolboxRequest::Write(args::WriteArgs { path: "big".into(), content });
    assert!(matches!(t.toolbox.ask(write).await, Err(ToolboxError::TooLarge)));
    let guide = ToolboxRequest::BaseGuide { file: "../README".into() };
    assert!(matches!(
        t.toolbox.ask(guide).await.unwrap(),
        ToolboxReply::Guide(None) | ToolboxReply::Refused(_)
    ));
    assert!(text(&t.toolbox, bash("echo still here", None)).await.starts_with("still here"));
}
