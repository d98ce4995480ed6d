//! The memory of a process, by `/proc/PID/status`: its own, and the parts of its program that it has read.

use anyhow::Context as _;

/// Now, in MiB (`VmRSS`).
///
/// # Errors
/// When there is no such process.
pub(super) fn resident_memory(pid: u32) -> anyhow::Result<f64> {
    status_line(pid, "VmRSS:")
}

/// The most that it ever had, in MiB (`VmHWM`).
///
/// # Errors
/// When there is no such process.
pub(super) fn peak_memory(pid: u32) -> anyhow::Result<f64> {
    status_line(pid, "VmHWM:")
}

fn status_line(pid: u32, name: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib.with_context(|| format!("no {name}"))?.parse()?;
    Ok(kib / 1024.0)
}
