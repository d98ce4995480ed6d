//! `init`: the `.codebutler/` that a repository begins with, for those who would rather write it in a terminal
//! than have the team learn the project. Nothing that is there is touched.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::args::InitArgs;
use codebutler_guides::seeds;

const FOLDER: &str = ".codebutler";
/// Text of a role's page that says nothing yet: the page's purpose.
const PAGE: &str = "What only this role has to know of this repository. At most 200 lines, and nothing that the code \
                    says by itself.";

/// Writes the files and says which. 0: they are there; 1: one could not be written, or a command failed; 2: there
/// is no such folder.
pub fn run_init(args: &InitArgs, out: &mut impl Write) -> ExitCode {
    if !args.dir.is_dir() {
        let _ = writeln!(out, "{}: there is no such folder", args.dir.display());
        return ExitCode::from(2);
    }
    let mut failed = false;
    let mut commands = String::new();
    for command in &args.run {
        if runs_green(&args.dir, command) {
            let _ = writeln!(commands, "- `{command}`");
        } else {
            failed = true;
            let _ = writeln!(out, "`{command}` did not end with 0: it is not written down");
        }
    }
    for (file, text) in guide_files(&commands) {
        match write_new(&args.dir.join(FOLDER).join(&file), &text) {
            Ok(true) => _ = writeln!(out, "{FOLDER}/{file}: written"),
            Ok(false) => _ = writeln!(out, "{FOLDER}/{file}: there already, left as it is"),
            Err(error) => {
                failed = true;
                let _ = writeln!(out, "{FOLDER}/{file}: {error}");
            }
        }
    }
    let _ = writeln!(
        out,
        "Fill in what a newcomer would have to ask, commit it, and merge it: roles read what the base branch has."
    );
    let _ = writeln!(
        out,
        "Skills are CodeButler's own, to be changed: without its file a skill is as CodeButler brings it, and a file \
         with `## Off` instead of its sections switches it off."
    );
    let _ = writeln!(
        out,
        "Tools of your own (Model Context Protocol): name their servers in `spec.mcpServers` of the Repo. Roles have \
         all of them while {FOLDER}/mcp.json names none; it chooses among them by name."
    );
    ExitCode::from(u8::from(failed))
}

fn runs_green(dir: &Path, command: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(dir).stdin(Stdio::null());
    shell.status().is_ok_and(|status| status.success())
}

fn guide_files(commands: &str) -> Vec<(String, String)> {
    let commands = match commands {
        "" => "",
        _ => &format!("\n### Commands that were run here\n\n{commands}"),
    };
    let global = format!(
        "# What everybody has to know\n\n## Project map\n\n### What it is\n\n### How it is built\n\n### What was decided, \
         and why\n{commands}\n## Learnings\n"
    );
    let workflows = seeds::find_seed("workflows.md").unwrap_or_default().to_owned();
    let mut files = vec![
        ("global.md".to_owned(), global),
        ("workflows.md".to_owned(), workflows),
        ("policy.json".to_owned(), "{}\n".to_owned()),
        ("mcp.json".to_owned(), "{\"servers\": {}}\n".to_owned()),
    ];
    let skills =
        seeds::list_skills().map(|(name, text)| (format!("skills/{name}"), text.to_owned()));
    files.extend(skills);
    let mut roles: Vec<_> = seeds::role_names().collect();
    roles.sort_unstable();
    files.extend(roles.into_iter().map(|role| {
        let text = format!("# {role}\n\n{PAGE}\n\n## Project map\n\n## Learnings\n");
        (format!("{role}.md"), text)
    }));
    files
}

/// Writes a file unless there is one; returns true if it was written.
fn write_new(path: &Path, text: &str) -> std::io::Result<bool> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_guides::validate::{self, files::GuideFiles};

    #[test]
    fn what_is_written_is_fit_for_use_and_what_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(".codebutler/coder.md");
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::write(&own, "Mine.\n").unwrap();
        let run = |commands: &[&str]| {
            let run = commands.iter().map(|command| (*command).to_owned()).collect();
            let mut said = Vec::new();
            let code = run_init(&InitArgs { dir: dir.path().to_owned(), run }, &mut said);
            (format!("{code:?}"), String::from_utf8(said).unwrap())
        };
        let (code, said) = run(&["test -d .", "false"]);
        assert_eq!(code, format!("{:?}", ExitCode::from(1)));
        assert!(said.contains("`false` did not end with 0: it is not written down"), "{said}");
        assert!(said.contains(".codebutler/coder.md: there already, left as it is"), "{said}");
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "Mine.\n");
        let global = std::fs::read_to_string(dir.path().join(".codebutler/global.md")).unwrap();
        assert!(global.contains("- `test -d .`\n") && !global.contains("false"), "{global}");
        assert_eq!(validate::check_guides(&GuideFiles::read(dir.path()), &[]), []);
        let (code, said) = run(&[]);
        assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
        assert!(!said.contains(": written"), "{said}");
        assert!(said.contains("`spec.mcpServers` of the Repo"), "{said}");
        let mcp = std::fs::read_to_string(dir.path().join(".codebutler/mcp.json")).unwrap();
        assert_eq!(mcp, "{\"servers\": {}}\n");
        for file in ["pm.md", "workflows.md", "policy.json", "skills/release.md"] {
            assert!(dir.path().join(".codebutler").join(file).exists(), "{file}");
        }
        let skills = std::fs::read_dir(dir.path().join(".codebutler/skills")).unwrap().count();
        assert_eq!(skills, seeds::list_skills().count());
    }
}
