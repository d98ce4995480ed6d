//! Pictures of what was built: a page that a server in the background shows.

use async_trait::async_trait;
use codebutler_browser::{ColorScheme, ScreenSize};
use codebutler_guides::policy::{CommandPolicy, RiskVerdict};
use codebutler_guides::text::clip_text;
use codebutler_wire::{ComparedView, PageColors, PageWidth, RiskTier, ShowComparison};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::toolbox_reply::load_picture;
use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::toolbox::protocol::{
    ImageRequest, PageMoment, PagePicture, ScreenshotReply, ToolboxReply, ToolboxRequest,
};
use crate::transcript::{ModelPicture, TranscriptRecord};

/// Bytes of a picture, in base64, that a model is shown.
const SHOWN: usize = 2 << 20;
/// Begins names of files.
const NAME: &str = "page";
const KEPT: &str = "Kept as the page before the change. Take it with `moment: after` once the change is right, with the same path, sizes and schemes.";
const NOT_THERE: &str =
    "The page is not there yet: with `moment: after` it is shown to people as a new one.";
const FAILED: &str = "Its server answered with an error, so people are not shown it.";
const SHOWN_ALONE: &str = "stands alone, because there is no picture of `before`. If the page is not new, serve the base branch from a worktree of its own (git worktree add), take `before` there, and then `after` again.";

/// In the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(Screenshot)]
}

/// `Screenshot`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShootArgs {
    /// Of a server that you started with Bash in the background, such as `http://localhost:3000/about`.
    pub url: String,
    /// `before` or `after` a visible change: with `after`, people are shown both. Absent: for yourself.
    #[serde(default)]
    pub moment: Option<ShownMoment>,
    /// First part of the names of files for yourself; `page` if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// `phone`, `desktop`; both if absent.
    #[serde(default)]
    pub sizes: Option<Vec<ShownSize>>,
    /// `light`, `dark`; `light` if absent.
    #[serde(default)]
    pub schemes: Option<Vec<ShownScheme>>,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShownMoment {
    Before,
    After,
}

/// A size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShownSize {
    Phone,
    Desktop,
}

/// Colours.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShownScheme {
    Light,
    Dark,
}

struct Screenshot;

#[async_trait]
impl Handler for Screenshot {
    type Args = ShootArgs;
    const NAME: &'static str = "Screenshot";
    const DESCRIPTION: &'static str = "Takes pictures of a page that a server here shows. Of a page that you change: with `moment: before` before you change anything, with `moment: after` once it is right. Conversation and pull request show both.";
    const RISK: CallRisk = CallRisk::Changes;

    fn verdict(&self, policy: &CommandPolicy, args: &ShootArgs) -> RiskVerdict {
        let risk = match args.moment {
            Some(ShownMoment::After) => RiskTier::WriteVisible,
            Some(ShownMoment::Before) | None => RiskTier::WriteLocal,
        };
        policy.tool(Self::NAME, risk)
    }

    async fn call(
        &self,
        cx: &ToolContext,
        args: ShootArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let frames = list_frames(&args);
        if frames.is_empty() {
            return Err(ToolFailure::Respond(
                "`sizes` and `schemes` name at least one each, or are left out".to_owned(),
            ));
        }
        let moment = args.moment.map(|moment| match moment {
            ShownMoment::Before => PageMoment::Before,
            ShownMoment::After => PageMoment::After,
        });
        let (url, name) = (args.url.clone(), args.name.unwrap_or_else(|| NAME.to_owned()));
        let request = ImageRequest::Screenshot { url, name, moment, frames };
        let reply = match cx.toolbox.ask(ToolboxRequest::Image(request)).await? {
            ToolboxReply::Screenshot(reply) => reply,
            ToolboxReply::Refused(why) => return Err(ToolFailure::Respond(why)),
            ToolboxReply::Failed(why) => return Err(ToolFailure::Stop(why)),
            other => {
                return Err(ToolFailure::Stop(format!(
                    "the toolbox gave a strange answer: {other:?}"
                )));
            }
        };
        let plain = |said: &str| (said.to_owned(), Vec::new());
        let (said, notes) = match (moment, reply.is_failed) {
            (None, _) => plain(""),
            (Some(PageMoment::Before), true) => plain(NOT_THERE),
            (Some(PageMoment::After), true) => plain(FAILED),
            (Some(PageMoment::Before), false) => plain(KEPT),
            (Some(PageMoment::After), false) => show_people(cx, call.key, &reply).await?,
        };
        Ok(show_pictures(reply, &said).noting(notes))
    }
}

/// Shows people what changed; what there is to say of it.
async fn show_people(
    cx: &ToolContext,
    key: &str,
    reply: &ScreenshotReply,
) -> Result<(String, Vec<String>), ToolFailure> {
    let (mut views, mut same) = (Vec::new(), Vec::new());
    for picture in &reply.pictures {
        let view = compare_view(cx, picture).await?;
        if view.before.as_ref() == Some(&view.after) {
            same.push(view.describe());
        } else {
            views.push(view);
        }
    }
    let mut said = describe_same(&same);
    if views.is_empty() {
        return Ok((format!("{said} Nothing was shown to people."), Vec::new()));
    }
    let new: Vec<String> =
        views.iter().filter(|view| view.before.is_none()).map(ComparedView::describe).collect();
    let wanted = ShowComparison { key: key.to_owned(), page: reply.path.clone(), views };
    match cx.gateway.show_comparison(&wanted).await.map_err(ToolFailure::from) {
        Ok(shown) => {
            let pull = if shown.notes.is_empty() {
                ", and in the pull request once there is one"
            } else {
                ""
            };
            said = format!("{said} People see them in the conversation now{pull}.");
            if !new.is_empty() {
                said = format!("{said} {} {}", new.join("; "), SHOWN_ALONE);
            }
            Ok((said.trim().to_owned(), shown.notes))
        }
        Err(ToolFailure::Respond(why)) => {
            Ok((said.trim().to_owned(), vec![format!("People are not shown them: {why}")]))
        }
        Err(failure) => Err(failure),
    }
}

/// A picture with the one from before.
async fn compare_view(
    cx: &ToolContext,
    picture: &PagePicture,
) -> Result<ComparedView, ToolFailure> {
    let before = match &picture.before {
        Some(path) => Some(load_picture(cx, path).await?),
        None => None,
    };
    Ok(ComparedView {
        width: match picture.size {
            ScreenSize::Phone => PageWidth::Phone,
            ScreenSize::Desktop => PageWidth::Desktop,
        },
        colors: match picture.scheme {
            ColorScheme::Light => PageColors::Light,
            ColorScheme::Dark => PageColors::Dark,
        },
        before,
        after: picture.data.clone(),
    })
}

fn describe_same(same: &[String]) -> String {
    if same.is_empty() {
        return String::new();
    }
    format!("No pixel differs from the picture of `before` ({}).", same.join("; "))
}

fn list_frames(args: &ShootArgs) -> Vec<(ScreenSize, ColorScheme)> {
    let both = [ShownSize::Phone, ShownSize::Desktop];
    let sizes = args.sizes.as_deref().unwrap_or(&both);
    let schemes = args.schemes.as_deref().unwrap_or(&[ShownScheme::Light]);
    let mut frames = Vec::new();
    for scheme in schemes {
        for size in sizes {
            let size = match size {
                ShownSize::Phone => ScreenSize::Phone,
                ShownSize::Desktop => ScreenSize::Desktop,
            };
            let scheme = match scheme {
                ShownScheme::Light => ColorScheme::Light,
                ShownScheme::Dark => ColorScheme::Dark,
            };
            if !frames.contains(&(size, scheme)) {
                frames.push((size, scheme));
            }
        }
    }
    frames
}

/// The page in words, what else there is to say, and its pictures for a model that can see.
fn show_pictures(reply: ScreenshotReply, said: &str) -> ToolOutcome {
    let mut text = clip_text(&reply.page, 4_000);
    if !said.is_empty() {
        text = format!("{text}\n{said}");
    }
    let mut records = Vec::new();
    for picture in reply.pictures {
        let (shown, is_small) = (picture.shown, picture.data.len() <= SHOWN);
        let note = if is_small { "" } else { " (too large to be shown to you)" };
        text = format!("{text}\n`{shown}`{note}");
        if is_small {
            let url = format!("data:image/png;base64,{}", picture.data);
            records.push(TranscriptRecord::Picture(ModelPicture { shown, url }));
        }
    }
    ToolOutcome::plain(text).recording(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sizes_in_light_are_the_usual_pictures_and_each_is_taken_once() {
        let args = |sizes, schemes| {
            let (url, moment, name) = (String::new(), None, None);
            ShootArgs { url, moment, name, sizes, schemes }
        };
        let usual = [ScreenSize::Phone, ScreenSize::Desktop].map(|size| (size, ColorScheme::Light));
        assert_eq!(list_frames(&args(None, None)), usual);
        let twice = Some(vec![ShownSize::Phone, ShownSize::Phone]);
        let both = Some(vec![ShownScheme::Dark, ShownScheme::Light]);
        let frames = list_frames(&args(twice, both));
        let expected = [ColorScheme::Dark, ColorScheme::Light].map(|one| (ScreenSize::Phone, one));
        assert_eq!(frames, expected);
        assert!(list_frames(&args(Some(Vec::new()), None)).is_empty());
    }
}
