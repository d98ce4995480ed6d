//! Commands in the background, whose output waits to be asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_guides::text::clip_text;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::Notify;
use tracing::Instrument as _;

use super::{CommandShell, DRAIN, end_child, end_verdict, lock};
use crate::toolbox::ToolError;
use crate::toolbox::environment::CommandEnvironment;
use crate::toolbox::oom::OomWatch;
use crate::toolbox::output::CommandOutput;
use crate::toolbox::protocol::ToolboxReply;

/// Limit on the jobs that run at the same time.
const MAX_JOBS: usize = 8;
/// Interval at which a job is polled.
const JOB_PAUSE: Duration = Duration::from_millis(100);
/// Ended jobs that are remembered.
const MAX_REMEMBERED: usize = 32;

#[derive(Default)]
pub(super) struct BackgroundJobs {
    next: u32,
    known: BTreeMap<u32, Arc<BackgroundJob>>,
}

struct BackgroundJob {
    command: String,
    started: Instant,
    /// Since it was last asked for.
    output: Mutex<CommandOutput>,
    verdict: Mutex<Option<String>>,
    stop: Notify,
}

impl CommandShell {
    pub(super) fn begin(
        self: &Arc<Self>,
        tree: &Path,
        env: &CommandEnvironment,
        command: &str,
    ) -> Result<ToolboxReply, ToolError> {
        let mut jobs = lock(&self.jobs);
        let live = jobs.known.values().filter(|job| lock(&job.verdict).is_none()).count();
        if live >= MAX_JOBS {
            return Err(ToolError::refused(format!(
                "{MAX_JOBS} background jobs run already: end one with `job` and `kill: true`"
            )));
        }
        // The watch begins before the command runs: it may run out of memory at once.
        let memory = OomWatch::begin(&self.cgroup);
        let (output, child) = self.spawn(tree, env, command)?;
        jobs.next += 1;
        let id = jobs.next;
        let job = Arc::new(BackgroundJob {
            command: clip_text(command, 80),
            started: Instant::now(),
            output: Mutex::new(CommandOutput::new(self.logs.clone())),
            verdict: Mutex::default(),
            stop: Notify::new(),
        });
        jobs.known.insert(id, job.clone());
        while jobs.known.len() > MAX_REMEMBERED {
            let ended = jobs.known.iter().find(|(_, job)| lock(&job.verdict).is_some());
            let Some(id) = ended.map(|(id, _)| *id) else { break };
            jobs.known.remove(&id);
        }
        drop(jobs);
        tokio::spawn(follow_job(self.clone(), job, output, child, memory).in_current_span());
        let text = format!(
            "Started background job {id}. See its output with `job: {id}`, and with `wait` wait for its end; it \
             ends with the pod."
        );
        Ok(ToolboxReply::Started { job: id, text })
    }

    /// New output of a job, and whether it still runs.
    pub(super) async fn look(&self, id: u32, kill: bool) -> Result<String, ToolError> {
        let Some(job) = lock(&self.jobs).known.get(&id).cloned() else {
            let known: Vec<_> = lock(&self.jobs).known.keys().map(ToString::to_string).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(ToolError::refused(format!(
                "there is no background job {id} (known: {known}); jobs end when the pod sleeps or restarts"
            )));
        };
        if kill {
            job.stop.notify_one();
            let deadline = Instant::now() + Duration::from_secs(5);
            while lock(&job.verdict).is_none() && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let new = lock(&job.output).take();
        let newline = if new.is_empty() || new.ends_with('\n') { "" } else { "\n" };
        let verdict = lock(&job.verdict).clone();
        let verdict = verdict.unwrap_or_else(|| {
            format!("[running for {:.0} s: {}]", job.started.elapsed().as_secs_f32(), job.command)
        });
        Ok(format!("{new}{newline}{verdict}"))
    }

    /// Returns once a background job has ended, or is not known any more.
    pub(crate) async fn job_ended(&self, id: u32) {
        loop {
            let job = lock(&self.jobs).known.get(&id).cloned();
            if job.is_none_or(|job| lock(&job.verdict).is_some()) {
                return;
            }
            tokio::time::sleep(JOB_PAUSE).await;
        }
    }

    /// Ends all background jobs.
    pub(crate) async fn end_jobs(&self) {
        let jobs: Vec<u32> = lock(&self.jobs).known.keys().copied().collect();
        for job in jobs {
            let live =
                lock(&self.jobs).known.get(&job).is_some_and(|job| lock(&job.verdict).is_none());
            if live {
                let _ = self.look(job, true).await;
            }
        }
    }
}

async fn follow_job(
    shell: Arc<CommandShell>,
    job: Arc<BackgroundJob>,
    mut output: pipe::Receiver,
    mut child: Child,
    memory: OomWatch,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut open = true;
    let ended = loop {
        tokio::select! {
            read = output.read(&mut buffer), if open => match read {
                Ok(n @ 1..) => lock(&job.output).push(&buffer[..n]),
                _ => open = false,
            },
            ended = child.wait() => break Some(ended),
            () = job.stop.notified() => break None,
        }
    };
    if ended.is_none() {
        // The job's last output is read while it ends: a full pipe would block it.
        let read = async {
            while let Ok(n @ 1..) = output.read(&mut buffer).await {
                lock(&job.output).push(&buffer[..n]);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = end_child(&mut child) => {}
            () = read => {}
        }
    }
    shell.forget(&child);
    shell.kill_strays().await;
    let rest = async {
        while let Ok(n @ 1..) = output.read(&mut buffer).await {
            lock(&job.output).push(&buffer[..n]);
        }
    };
    let _ = tokio::time::timeout(DRAIN, rest).await;
    let took = job.started.elapsed().as_secs_f32();
    let said = match ended {
        Some(ended) => end_verdict(ended, took),
        None => format!("[killed on request, {took:.1} s]"),
    };
    *lock(&job.verdict) =
        Some(memory.note().map_or_else(String::new, |note| format!("[{note}]\n")) + &said);
}
