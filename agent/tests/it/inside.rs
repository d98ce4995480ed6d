//! Attacks of a command on the rest of its pod, and on other roles, without opening a file: modes and attributes,
//! limits, threads, connections, locks and objects.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use codebutler_agent::tool_args as args;
use codebutler_agent::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use codebutler_wire::{PendingItem, RoleState};

use crate::toolbox::{Box, bash, start, start_with, text};
use crate::world::{World, git, in_order, says, until};

async fn run(t: &Box, command: &str) -> String {
    let root = t.world.dir.path().canonicalize().unwrap();
    let command = command.replace("ROOT", &root.display().to_string());
    text(&t.toolbox, bash(&command, Some(60))).await
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_that_a_command_changes_are_put_back_and_git_works_on() {
    let t = start().await;
    fs::create_dir_all(t.world.path("work/copy/pm/tree")).unwrap();
    fs::write(t.world.path("work/.setup.json"), "{}").unwrap();
    for path in [".git.lock", ".scratch", ".setup.json", "copy/pm", "home", "home/pm", ".base"] {
        let full = t.world.path("work").join(path);
        if !full.exists() {
            continue;
        }
        let before = mode(&full);
        run(&t, &format!("chmod 000 ROOT/work/{path}; chmod 000 ../{path}")).await;
        assert_eq!(mode(&full), before, "{path}");
    }
    // Changed at another time: the next operation of Git gives itself the rights that it needs.
    fs::set_permissions(t.world.path("work/.git.lock"), Permissions::from_mode(0o0)).unwrap();
    run(&t, "echo new > new").await;
    let parent = text(&t.toolbox, ToolboxRequest::Head).await;
    let commit = args::GitCommit { message: "Add new".into(), paths: None };
    text(&t.toolbox, ToolboxRequest::GitCommit { commit, parent }).await;
    assert!(matches!(
        t.toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await.unwrap(),
        ToolboxReply::Text(_)
    ));
    assert!(mode(&t.world.path("work/.git.lock")) & 0o600 == 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_only_reads_changes_no_mode_and_no_attribute_of_the_worktree() {
    let t = start_with(&["--worktree", "read-only", "--role", "reviewer"]).await;
    fs::create_dir_all(t.world.path("work/copy/pm/tree")).unwrap();
    fs::write(t.world.path("work/copy/pm/tree/note"), "theirs\n").unwrap();
    fs::create_dir_all(t.world.tree("src")).unwrap();
    fs::write(t.world.tree("src/run.sh"), "true\n").unwrap();
    // Projects without a package manager at hand keep what it would fetch.
    fs::create_dir_all(t.world.tree("node_modules/pad")).unwrap();
    fs::write(t.world.tree("node_modules/pad/index.js"), "pad\n").unwrap();
    git(&t.world.tree(""), &["add", "--force", "node_modules"]);
    for (path, to) in [
        ("tree/node_modules/pad/index.js", "755"),
        ("tree/node_modules/pad", "000"),
        ("tree/README", "755"),
        ("tree/README", "000"),
        ("tree/src/run.sh", "777"),
        ("tree/src", "000"),
        ("tree/.git", "000"),
        ("tree/.git/objects", "000"),
        ("tree/.git/HEAD", "000"),
        ("copy/pm/tree", "000"),
    ] {
        let full = t.world.path("work").join(path);
        let before = mode(&full);
        run(&t, &format!("chmod {to} ROOT/work/{path}")).await;
        assert_eq!(mode(&full), before, "{path}");
        let read = args::ReadArgs { path: "README".into(), ..args::ReadArgs::default() };
        text(&t.toolbox, ToolboxRequest::Read(read)).await;
    }
    let attributes = "import os\nfor path in ['ROOT/work/tree/README', 'README']:\n    \
                      try: os.setxattr(path, 'user.x', b'1'); print('set')\n    \
                      except OSError as e: print(e.strerror)";
    let said = run(&t, &format!("python3 - <<'P'\n{attributes}\nP")).await;
    assert!(!said.contains("set\n") && said.contains("not supported"), "{said}");
    // Sealed by fs-verity, a file could be written by nobody any more.
    let seal = "import fcntl, struct\nwith open('ROOT/work/tree/README') as f:\n    \
                try: fcntl.ioctl(f, 0x40806685, struct.pack('=4I', 1, 1, 4096, 0) + bytes(112)); print('sealed')\n    \
                except OSError as e: print(e.strerror)";
    let said = run(&t, &format!("python3 - <<'P'\n{seal}\nP")).await;
    assert!(said.contains("not permitted"), "{said}");
    // Leased, it could be opened to be written after 45 seconds only.
    let lease = "import fcntl\nwith open('ROOT/work/tree/README') as f:\n    \
                 try: fcntl.fcntl(f, 1024, fcntl.F_RDLCK); print('leased')\n    \
                 except OSError as e: print(e.strerror)";
    let said = run(&t, &format!("python3 - <<'P'\n{lease}\nP")).await;
    assert!(said.contains("not permitted"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_lowers_its_own_limits_alone() {
    let t = start().await;
    let limits = "import os, resource as r\nfor pid in [os.getppid(), 1, 0]:\n    \
                  try: r.prlimit(pid, r.RLIMIT_NOFILE, (64, 64)); print(pid, 'lowered')\n    \
                  except OSError as e: print(pid, 'refused')";
    let said = run(&t, &format!("python3 - <<'P'\n{limits}\nP")).await;
    assert_eq!(said.matches("refused").count(), 2, "{said}");
    assert!(said.contains("0 lowered"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_threads_end_with_their_command() {
    let t = start().await;
    let threads = "import threading, time\nthreading.stack_size(32768)\nfor n in range(4600):\n    \
                   threading.Thread(target=time.sleep, args=(20,), daemon=True).start()\ntime.sleep(20)";
    let said = run(&t, &format!("python3 - <<'P'\n{threads}\nP")).await;
    assert!(said.contains("had started more than 4096 threads"), "{said}");
    assert!(run(&t, "echo next").await.starts_with("next\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_heard_while_the_worktree_is_made_ready() {
    let mut world = World::new(in_order(vec![says("done")])).await;
    world.gateway.lock().say("begin", true);
    fs::create_dir_all(world.path("work")).unwrap();
    let lock = File::create(world.path("work/.git.lock")).unwrap();
    lock.lock().unwrap();
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("it runs", || {
        gateway.lock().reports.last().is_some_and(|report| report.state == RoleState::Running)
    })
    .await;
    let began = Instant::now();
    gateway.lock().pending.push(PendingItem {
        id: "stop:1:pm".into(),
        role: "pm".into(),
        kind: "stop".into(),
        choice: "stop".into(),
        user: "U1".into(),
        message: "1.000000".parse().unwrap(),
    });
    until("it has stopped", || {
        gateway.lock().reports.last().is_some_and(|report| report.state != RoleState::Running)
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(20));
    drop(lock);
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    assert!(inner.post_texts().last().is_some_and(|text| text.starts_with("Stopped")));
}
