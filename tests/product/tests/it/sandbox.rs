//! The sandbox without a kubelet: hand-made specs, real namespaces.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebutler_testbed::kubelet::sandbox::spec::{
    BindMount, ContainerSpec, ExecSpec, PodSpec, ProcessSpec,
};
use codebutler_testbed::kubelet::sandbox::{
    PodSandbox, SandboxError, SandboxProcess, exec_command,
};
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn helper() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_demo"))
}

async fn pod() -> PodSandbox {
    let spec = PodSpec {
        hostname: "a-pod".into(),
        addresses: vec![[10, 96, 0, 7].into()],
        host_network: false,
    };
    PodSandbox::start(&helper(), &spec).await.unwrap()
}

fn spec(pod: &PodSandbox, dir: &Path, argv: &[&str]) -> ContainerSpec {
    let root = dir.join("root");
    std::fs::create_dir_all(&root).unwrap();
    ContainerSpec {
        pod: pod.pid(),
        root,
        read_only_root: false,
        etc: vec![("hosts".into(), "127.0.0.1 localhost\n".into())],
        image: vec![],
        mounts: vec![],
        process: process(argv),
    }
}

fn process(argv: &[&str]) -> ProcessSpec {
    ProcessSpec {
        argv: argv.iter().map(ToString::to_string).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this".into())],
        cwd: "/".into(),
        uid: 1000,
        gid: 1000,
    }
}

/// Runs to the end: what it wrote, and its exit code.
async fn run(spec: &ContainerSpec) -> (String, i32) {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let mut process = SandboxProcess::container(&helper(), spec, write).await.unwrap();
    let output = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        std::fs::File::from(read).read_to_string(&mut text).unwrap();
        text
    });
    let code = process.wait().await.unwrap();
    (output.await.unwrap(), code)
}

async fn sh(pod: &PodSandbox, dir: &Path, script: &str) -> (String, i32) {
    run(&spec(pod, dir, &["sh", "-c", script])).await
}

fn bind(source: &Path, target: &str) -> BindMount {
    BindMount { source: source.into(), sub_path: None, target: target.into(), read_only: false }
}

#[tokio::test]
async fn a_command_has_no_rights_and_sees_only_its_own() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    let script = r#"
        try() { if "$@" > /dev/null 2>&1; then echo "could $*"; fi; }
        echo "id $(id -u) $(id -g) $(hostname)"
        env | grep -v ^PWD= | sort
        grep -E '^(Cap|NoNewPrivs)' /proc/self/status
        ls -d /home /root /sys /opt /mnt /work 2> /dev/null
        [ $(ls -d /proc/[0-9]* | wc -l) -lt 10 ] || echo could see processes
        sh -c 'ls -l /proc/self/fd' | grep -v -e pipe: -e /dev/null -e /proc/ -e ^total
        ls /proc/1/fd 2> /dev/null | grep -v '^[012]$'
        try cat /proc/1/environ; try cat /proc/1/exe; try cat /proc/kcore
        try sh -c 'echo x > /proc/sys/kernel/core_pattern'
        try sh -c 'echo 1 > /proc/sys/user/max_user_namespaces'
        try sh -c 'echo h > /proc/sysrq-trigger'
        try unshare -U true; try mount -t tmpfs x /tmp; try hostname other; try chroot /tmp
        try mount -o remount,rw /usr; try umount /proc; try touch /usr/x; try mknod /tmp/m b 8 0
        echo written > /tmp/x && cat /tmp/x
    "#;
    let (text, code) = sh(&pod, dir.path(), script).await;
    insta::assert_snapshot!(format!("{text}exit {code}"), @r"
    id 1000 1000 a-pod
    ONLY=this
    PATH=/usr/bin:/bin
    CapInh:	0000000000000000
    CapPrm:	0000000000000000
    CapEff:	0000000000000000
    CapBnd:	0000000000000000
    CapAmb:	0000000000000000
    NoNewPrivs:	1
    written
    exit 0
    ");
    pod.stop().await;
}

#[tokio::test]
async fn exit_codes_are_those_of_the_command() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    for (script, expected) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
        assert_eq!(sh(&pod, dir.path(), script).await.1, expected, "{script}");
    }
    let (_, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let missing = spec(&pod, dir.path(), &["no-such-program"]);
    let refused = SandboxProcess::container(&helper(), &missing, write).await;
    assert!(
        matches!(&refused, Err(SandboxError::Refused(why)) if why.contains("not found in $PATH")),
        "{refused:?}"
    );
    pod.stop().await;
}

#[tokio::test]
async fn signals_arrive_and_orphans_die_with_the_container() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    let (mut read, write) = pipe();
    let script = "setsid sleep 1000 & trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done";
    let spec = spec(&pod, dir.path(), &["sh", "-c", script]);
    let mut process = SandboxProcess::container(&helper(), &spec, write).await.unwrap();
    let mut up = [0; 3];
    read.read_exact(&mut up).await.unwrap();
    process.signal(Signal::SIGTERM).unwrap();
    assert_eq!(process.wait().await.unwrap(), 9);
    // The orphan held the pipe's other end.
    let mut rest = String::new();
    tokio::time::timeout(Duration::from_secs(5), read.read_to_string(&mut rest))
        .await
        .unwrap()
        .unwrap();
    pod.stop().await;
}

fn pipe() -> (tokio::net::unix::pipe::Receiver, std::os::fd::OwnedFd) {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    nix::fcntl::fcntl(&read, nix::fcntl::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK)).unwrap();
    (tokio::net::unix::pipe::Receiver::from_owned_fd(read).unwrap(), write)
}

#[tokio::test]
async fn volumes_are_where_they_belong() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    let volume = dir.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("file"), "content").unwrap();
    let mut spec = spec(
        &pod,
        dir.path(),
        &[
            "sh",
            "-c",
            "cat /usr/local/bin/not-on-the-host; ls /usr/local/bin | head -1 >/dev/null && echo; \
             echo a > /data/part/new; echo b > /fixed/new; cat /usr/share/a/b; pwd",
        ],
    );
    spec.image = vec![bind(&volume.join("file"), "/usr/local/bin/not-on-the-host")];
    spec.mounts = vec![
        BindMount { sub_path: Some("sub/path".into()), ..bind(&volume, "/data/part") },
        BindMount { read_only: true, ..bind(&volume, "/fixed") },
        BindMount { sub_path: Some("file".into()), ..bind(&volume, "/usr/share/a/b") },
    ];
    spec.process.cwd = "/made/for/it".into();
    let (text, code) = run(&spec).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read_to_string(volume.join("sub/path/new")).unwrap(), "a\n");
    assert!(!volume.join("new").exists());
    assert!(text.contains("Read-only file system"), "{text}");
    assert!(text.starts_with("content\n") && text.ends_with("content/made/for/it\n"), "{text}");
    assert!(!Path::new("/usr/local/bin/not-on-the-host").exists());

    spec.read_only_root = true;
    spec.process.argv[2] = "touch /x /tmp/x; echo c > /data/part/new".into();
    let (text, _) = run(&spec).await;
    assert_eq!(text.matches("Read-only file system").count(), 2, "{text}");
    assert_eq!(std::fs::read_to_string(volume.join("sub/path/new")).unwrap(), "c\n");
    pod.stop().await;
}

#[tokio::test]
async fn another_command_joins_the_same_container() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    let (mut read, write) = pipe();
    let spec = spec(&pod, dir.path(), &["sh", "-c", "echo mine > /tmp/x; echo up; sleep 1000"]);
    let process_one = SandboxProcess::container(&helper(), &spec, write).await.unwrap();
    read.read_exact(&mut [0; 3]).await.unwrap();
    let more = |argv: &[&str]| ExecSpec {
        pod: pod.pid(),
        container: process_one.started().clone(),
        process: process(argv),
    };
    let script = "cat /tmp/x; id -u; env | grep -v PWD; grep -E '^(CapBnd|NoNew)' /proc/self/status
        kill -9 1; kill -0 1 && echo alive; unshare -U true && echo could; exit 4";
    let output = exec_command(&helper(), &more(&["sh", "-c", script]), Duration::from_secs(10))
        .await
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), output.status);
    insta::assert_snapshot!(text, @r"
    mine
    1000
    PATH=/usr/bin:/bin
    ONLY=this
    CapBnd:	0000000000000000
    NoNewPrivs:	1
    alive
    exit status: 4
    ");
    let slow = exec_command(&helper(), &more(&["sleep", "100"]), Duration::from_millis(200)).await;
    assert!(slow.is_err());
    pod.stop().await;
}

#[tokio::test]
async fn the_network_is_a_loopback_of_its_own() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    let host = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = host.local_addr().unwrap().port();
    let listener = pod.listen("10.96.0.7:443".parse().unwrap()).await.unwrap();
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.write_all(b"from outside\n").await.unwrap();
    });
    let script = format!(
        "cat < /dev/tcp/10.96.0.7/443
        for at in 127.0.0.1/{port} 10.96.0.7/{port} 1.1.1.1/443 10.96.0.1/443; do
            if (: < /dev/tcp/$at) 2> /dev/null; then echo could $at; fi
        done
        cut -d: -f1 /proc/net/dev | tail -n +3"
    );
    let (text, _) = run(&spec(&pod, dir.path(), &["bash", "-c", &script])).await;
    assert_eq!(text, "from outside\n    lo\n");
    server.await.unwrap();
    pod.stop().await;
}

#[tokio::test]
async fn a_container_starts_quickly() {
    let (pod, dir) = (pod().await, tempfile::tempdir().unwrap());
    let spec = spec(&pod, dir.path(), &["true"]);
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let (_, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let before = std::time::Instant::now();
        let mut started = SandboxProcess::container(&helper(), &spec, write).await.unwrap();
        best = best.min(before.elapsed());
        started.wait().await.unwrap();
    }
    println!("container start: {best:?}");
    assert!(best < Duration::from_millis(50), "{best:?}");
    pod.stop().await;
}
