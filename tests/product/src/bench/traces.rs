//! The agents' transcripts, from the volumes of a stack that has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::scan::ScannedCall;

/// What the roles did.
#[derive(Clone, Debug, Default)]
pub struct RoleTraces {
    /// In each role's order.
    pub calls: Vec<ScannedCall>,
    /// Calls that were wrong in themselves.
    pub errors: u64,
}

/// Reads them all. What is no record is passed over: a newer agent may know more kinds.
///
/// # Errors
/// When the volumes can't be read.
pub fn read_traces(dir: &Path) -> io::Result<RoleTraces> {
    let mut traces = RoleTraces::default();
    for path in trace_files(dir)? {
        let role = role_name(&path);
        let text = fs::read_to_string(&path)?;
        for record in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            match record["record"].as_str() {
                Some("answer") => {
                    let calls = record["message"]["tool_calls"].as_array();
                    traces.calls.extend(calls.into_iter().flatten().map(|call| ScannedCall {
                        role: role.clone(),
                        tool: call["name"].as_str().unwrap_or_default().to_owned(),
                        arguments: call["arguments"].as_str().unwrap_or_default().to_owned(),
                    }));
                }
                Some("result") if record["kind"] == "fault" => traces.errors += 1,
                _ => {}
            }
        }
    }
    Ok(traces)
}

/// Copies them into a folder, by role.
///
/// # Errors
/// When it can't be written.
pub fn keep_traces(dir: &Path, into: &Path) -> io::Result<()> {
    fs::create_dir_all(into)?;
    for path in trace_files(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        fs::copy(&path, into.join(format!("{}-{name}", role_name(&path))))?;
    }
    Ok(())
}

fn role_name(path: &Path) -> String {
    path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Below `agent/` of each volume: a worktree's own files are none.
fn trace_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fn below(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.symlink_metadata()?.is_dir() {
                below(&path, found)?;
            } else if path.extension().is_some_and(|end| end == "jsonl") {
                found.push(path);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    for volume in fs::read_dir(dir.join("stack").join("volumes"))? {
        let agent = volume?.path().join("agent");
        if agent.is_dir() {
            below(&agent, &mut found)?;
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_faults_are_counted_in_the_agents_part_of_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("stack/volumes/pv");
        for (path, text) in [
            (
                "agent/coder/transcript.jsonl",
                "{\"record\":\"answer\",\"message\":{\"tool_calls\":[{\"id\":\"1\",\"name\":\"Bash\",\"arguments\":\"{}\"}]}}\n\
                 {\"record\":\"result\",\"call\":0,\"text\":\"no\",\"kind\":\"fault\"}\n{\"record\":\"novelty\"}\n{\"rec",
            ),
            (
                "work/coder/transcript.jsonl",
                "{\"record\":\"result\",\"call\":0,\"text\":\"\",\"kind\":\"fault\"}\n",
            ),
        ] {
            let path = volume.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let traces = read_traces(dir.path()).unwrap();
        assert_eq!(traces.errors, 1);
        assert_eq!(traces.calls.len(), 1);
        assert_eq!(
            (traces.calls[0].role.as_str(), traces.calls[0].tool.as_str()),
            ("coder", "Bash")
        );
        keep_traces(dir.path(), &dir.path().join("kept")).unwrap();
        assert!(dir.path().join("kept/coder-transcript.jsonl").exists());
    }
}
