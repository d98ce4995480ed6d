//! Pictures of a page: a child of its own takes them, in the sandbox of commands, and may write to one folder.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use codebutler_browser::PageReport;

use super::confined::{ConfinedChild, ConfinedEnd};
use super::{CommandShell, ToolError};
use crate::args::ScreenshotArgs;
use crate::screenshot::{ScreenshotAnswer, read_answer};
use crate::toolbox::environment::CommandEnvironment;

/// Longest time that the child has. It bounds itself below that.
const LIMIT: Duration = Duration::from_mins(3);
/// Most that it may answer, in bytes.
const MAX_ANSWER: u64 = 96 * 1024 * 1024;

impl CommandShell {
    /// Takes pictures of a page of a server that runs here.
    pub(crate) async fn take_screenshots(
        &self,
        env: &CommandEnvironment,
        wanted: &ScreenshotArgs,
    ) -> Result<PageReport, ToolError> {
        let fail = |e: io::Error| ToolError::refused(format!("the browser can't be started: {e}"));
        let [_, tmp, _] = env.folders();
        let folder = tempfile::Builder::new().prefix("browser-").tempdir_in(tmp).map_err(fail)?;
        let wanted = ScreenshotArgs { folder: folder.path().to_owned(), ..wanted.clone() };
        let path = env.variables().filter(|(name, _)| *name == "PATH");
        let child = ConfinedChild {
            name: "browser",
            words: wanted.words(),
            write: vec![folder.path().to_owned()],
            input: Stdio::null(),
            environment: path.map(|(name, value)| (name.clone(), value.clone())).collect(),
            limit: LIMIT,
            most: MAX_ANSWER,
        };
        let ConfinedEnd { answer, status } = self.run_confined(child).await?;
        let Some(status) = status else {
            return Err(ToolError::refused(format!(
                "the pictures took longer than {} seconds",
                LIMIT.as_secs()
            )));
        };
        match read_answer(&answer) {
            Some(ScreenshotAnswer::Taken(report)) => Ok(report),
            Some(ScreenshotAnswer::Failed(why)) => Err(ToolError::refused(why)),
            None => Err(ToolError::refused(format!(
                "the browser gave no answer ({status}): the pod may have too little memory for it"
            ))),
        }
    }
}
