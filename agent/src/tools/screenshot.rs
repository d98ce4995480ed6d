//! Pictures of what was built: a page that a server in the background shows.

use async_trait::async_trait;
use codebutler_browser::{ColorScheme, ScreenSize};
use codebutler_guides::text::clip_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::toolbox::protocol::{ImageRequest, ScreenshotReply, ToolboxReply, ToolboxRequest};
use crate::transcript::{ModelPicture, TranscriptRecord};

/// Bytes of a picture, in base64, that a model is shown.
const SHOWN: usize = 2 << 20;

/// In the order in which the model sees them.
pub fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(Screenshot)]
}

/// `Screenshot`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShootArgs {
    /// Of a server that you started with Bash in the background, such as `http://localhost:3000/about`.
    pub url: String,
    /// Begins the files' names, such as `before` or `after`.
    pub name: String,
    /// `phone`, `desktop`; both if absent.
    #[serde(default)]
    pub sizes: Option<Vec<ShownSize>>,
    /// `light`, `dark`; `light` if absent.
    #[serde(default)]
    pub schemes: Option<Vec<ShownScheme>>,
}

/// A size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShownSize {
    Phone,
    Desktop,
}

/// Colours.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShownScheme {
    Light,
    Dark,
}

struct Screenshot;

#[async_trait]
impl Handler for Screenshot {
    type Args = ShootArgs;
    const NAME: &'static str = "Screenshot";
    const DESCRIPTION: &'static str = "Takes pictures of a page that a server here shows. Take them before and after a visible change, and send both with `pictures` of SendMessage.";
    const RISK: CallRisk = CallRisk::Changes;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ShootArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let frames = list_frames(&args);
        if frames.is_empty() {
            return Err(ToolFailure::Respond(
                "`sizes` and `schemes` name at least one each, or are left out".to_owned(),
            ));
        }
        let request = ImageRequest::Screenshot { url: args.url, name: args.name, frames };
        match cx.toolbox.ask(ToolboxRequest::Image(request)).await? {
            ToolboxReply::Screenshot(reply) => Ok(show_pictures(reply)),
            ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
            ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
            other => {
                Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}")))
            }
        }
    }
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

/// The page in words, and its pictures for a model that can see.
fn show_pictures(reply: ScreenshotReply) -> ToolOutcome {
    let mut text = clip_text(&reply.page, 4_000);
    let mut records = Vec::new();
    for picture in reply.pictures {
        let (shown, is_small) = (picture.shown, picture.data.len() <= SHOWN);
        let note = if is_small { "" } else { " (too large to be shown to you)" };
        text = format!("{text}\n`{shown}`{note}");
        if is_small {
            let url = format!("data:{};base64,{}", picture.media_type, picture.data);
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
        let args =
            |sizes, schemes| ShootArgs { url: String::new(), name: String::new(), sizes, schemes };
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
