//! `exec`: one command in its sandbox, and the end of everything it started.
//!
//! The toolbox starts one of these for each command. It is the subreaper of what the command starts:
//! whatever leaves its process group and session still ends up here, so that commands can be told
//! apart, and ends with the command. The command can't signal it where Landlock knows signals (ABI
//! 6); elsewhere the toolbox looks for what a killed supervisor left.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getppid, setsid};

use crate::args::ExecArgs;
use crate::sandbox::{self, SandboxPlan};
use crate::toolbox::processes;

/// The command could not be confined.
pub const NOT_CONFINED: u8 = 125;
/// The program does not exist.
pub const NOT_FOUND: u8 = 127;
/// The command started more processes than this.
pub const TOO_MANY: u8 = 124;
/// Set once the command was stopped for having too many processes.
static BOMB: AtomicBool = AtomicBool::new(false);
const MAX_PROCESSES: usize = 1000;
/// Threads of all of them: a pod's and a node's numbers of tasks are shared.
const MAX_THREADS: usize = 4096;
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command and passes its exit code or signal on.
pub fn run_supervised(args: &ExecArgs) -> ExitCode {
    let parent = getppid();
    // Both fail only where they hold already.
    let _ = setsid();
    let _ = prctl::set_child_subreaper(true);
    sandbox::limit_process();
    // The kernel kills the command before the toolbox when memory runs out. The kubelet gives containers up to 999,
    // and raising it needs no right.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    // The command runs as the same user: without Landlock nothing else keeps it from this process' memory.
    let _ = prctl::set_dumpable(false);
    let (child, killer) = match start_command(args) {
        Ok(started) => started,
        Err(SuperviseError::Confine(why)) => return complain_of(&why, NOT_CONFINED),
        Err(SuperviseError::Start(e)) if e.kind() == io::ErrorKind::NotFound => {
            return ExitCode::from(NOT_FOUND);
        }
        Err(SuperviseError::Start(e)) => {
            return complain_of(&format!("the command can't be started: {e}"), NOT_CONFINED);
        }
    };
    let watcher = killer.clone();
    thread::spawn(move || watch_parent(parent, &watcher));
    let ended = wait_for(child);
    killer.kill();
    processes::end_all();
    match ended {
        _ if BOMB.load(Ordering::SeqCst) => ExitCode::from(TOO_MANY),
        Some(WaitStatus::Exited(_, code)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Some(WaitStatus::Signaled(_, signal, _)) => {
            let _ = raise(signal);
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    }
}

enum SuperviseError {
    Confine(String),
    Start(io::Error),
}

/// A thread that lives in the command's own sandbox. Where Landlock confines signals, a signal to
/// everybody from there reaches the command's processes and nobody else, all at once: a fork bomb
/// can't outrun it.
#[derive(Clone)]
struct SignalThread(Option<mpsc::Sender<mpsc::Sender<()>>>);

impl SignalThread {
    fn kill(&self) {
        let Some(orders) = &self.0 else { return };
        let (done, wait) = mpsc::channel();
        if orders.send(done).is_ok() {
            let _ = wait.recv_timeout(LOOK);
        }
    }
}

/// On a thread of its own: what confines it must not confine the supervisor.
fn start_command(args: &ExecArgs) -> Result<(Pid, SignalThread), SuperviseError> {
    let (write, read, hide) = (args.write.clone(), args.read.clone(), args.hide.clone());
    let plan = SandboxPlan { write, read, hide };
    let (mode, words) = (args.sandbox, args.command.clone());
    let (started, starting) = mpsc::channel();
    let (orders, ordered) = mpsc::channel::<mpsc::Sender<()>>();
    thread::spawn(move || {
        let entered = sandbox::enter_sandbox(mode, &plan);
        let child =
            entered.map_err(|error| SuperviseError::Confine(error.to_string())).and_then(|()| {
                let mut words = words.iter();
                let Some(program) = words.next() else {
                    return Err(SuperviseError::Start(io::ErrorKind::NotFound.into()));
                };
                Command::new(program)
                    .args(words)
                    .process_group(0)
                    .spawn()
                    .map_err(SuperviseError::Start)
            });
        let failed = child.is_err();
        // The toolbox is outside: if it can be reached, then so can everybody else.
        let scoped = !failed && kill(getppid(), None) == Err(Errno::EPERM);
        let _ = started.send(child.map(|child| (child.id(), scoped)));
        while let Some(done) = ordered.recv().ok().filter(|_| scoped) {
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            let _ = done.send(());
        }
    });
    match starting.recv() {
        Ok(Ok((child, scoped))) => {
            let child = Pid::from_raw(i32::try_from(child).unwrap_or(i32::MAX));
            Ok((child, SignalThread(scoped.then_some(orders))))
        }
        Ok(Err(failed)) => Err(failed),
        Err(_) => Err(SuperviseError::Confine("the sandbox broke".to_owned())),
    }
}

/// Waits until the command itself has ended; adopted orphans are reaped on the way.
fn wait_for(child: Pid) -> Option<WaitStatus> {
    loop {
        match waitpid(None, None) {
            Ok(status) if status.pid() == Some(child) => return Some(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Ends everything if the toolbox dies or the processes multiply.
fn watch_parent(parent: Pid, killer: &SignalThread) {
    loop {
        thread::sleep(LOOK);
        let found = processes::count_tasks();
        let many = found.processes > MAX_PROCESSES || found.threads > MAX_THREADS;
        if many {
            // First: when the command is gone, so is this process.
            BOMB.store(true, Ordering::SeqCst);
            let (most, what) = if found.processes > MAX_PROCESSES {
                (MAX_PROCESSES, "processes")
            } else {
                (MAX_THREADS, "threads")
            };
            let why = format!("killed: it had started more than {most} {what}");
            let _ = complain_of(&why, TOO_MANY);
        }
        if many || getppid() != parent {
            killer.kill();
            processes::end_all();
            std::process::exit(TOO_MANY.into());
        }
    }
}

fn complain_of(why: &str, code: u8) -> ExitCode {
    use io::Write as _;
    // One write: other threads may end the process at any time.
    let _ = io::stderr().write_all(format!("codebutler: {why}\n").as_bytes());
    ExitCode::from(code)
}
