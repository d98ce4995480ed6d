//! Images: made and changed by a model through the gateway, kept beside the work until people choose one, and then committed
//! where it belongs.

use async_trait::async_trait;
use codebutler_guides::text::clip_text;
use codebutler_wire::{DrawImages, DrawnImages, ImageQuality, ImageSize, PlaceImage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attachment::{keep_attachment, split_path};
use super::toolbox_reply::{ask_text, load_source};
use super::{
    CallRisk, Handler, PushResult, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome,
};
use crate::gateway::mcp::explain_refusal;
use crate::toolbox::protocol::{ImageRequest, ToolboxRequest, WorktreePicture};

/// In the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(GenerateImage), Box::new(EditImage), Box::new(KeepImage)]
}

/// `GenerateImage`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GenerateArgs {
    /// What it shows, in which style and colours, and the exact words in it, if any.
    pub prompt: String,
    /// Variants, 1 to 4; 1 if absent.
    #[serde(default)]
    pub count: Option<u8>,
    /// `square` if absent.
    #[serde(default)]
    pub size: Option<ImageSize>,
    /// `medium` if absent. Each step costs about four times as much.
    #[serde(default)]
    pub quality: Option<ImageQuality>,
    /// Without a background.
    #[serde(default)]
    pub transparent: Option<bool>,
}

struct GenerateImage;

#[async_trait]
impl Handler for GenerateImage {
    type Args = GenerateArgs;
    const NAME: &'static str = "GenerateImage";
    const DESCRIPTION: &'static str = "Makes images and shows them in the conversation. People are asked before the first ones: end your run while they are, and repeat exactly this call once they said yes. Each call costs money.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: GenerateArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let wanted = DrawImages {
            prompt: args.prompt,
            count: args.count.unwrap_or(1),
            size: args.size.unwrap_or_default(),
            quality: args.quality.unwrap_or_default(),
            transparent: args.transparent.unwrap_or_default(),
            ..DrawImages::default()
        };
        draw(cx, wanted, call).await
    }
}

/// `EditImage`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditArgs {
    /// 1 to 4 images, of the repository, of `.codebutler/images/` or as `slack:F0123`: the first one is changed, the others
    /// are there to look at.
    pub images: Vec<String>,
    /// What changes.
    pub prompt: String,
    /// The part that changes, in words.
    #[serde(default)]
    pub area: Option<String>,
    /// Instead: a PNG of the same size, transparent where the image changes.
    #[serde(default)]
    pub mask: Option<String>,
    /// Variants, 1 to 4; 1 if absent.
    #[serde(default)]
    pub count: Option<u8>,
    /// The shape of the first image if absent.
    #[serde(default)]
    pub size: Option<ImageSize>,
    /// `medium` if absent.
    #[serde(default)]
    pub quality: Option<ImageQuality>,
    /// Without a background.
    #[serde(default)]
    pub transparent: Option<bool>,
}

struct EditImage;

#[async_trait]
impl Handler for EditImage {
    type Args = EditArgs;
    const NAME: &'static str = "EditImage";
    const DESCRIPTION: &'static str = "Makes changed versions of an image, as GenerateImage makes new ones. The image itself stays.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: EditArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        if args.images.is_empty() {
            return Err(ToolFailure::Respond(
                "`images` names the image to change; GenerateImage makes a new one".to_owned(),
            ));
        }
        let mut sources = Vec::new();
        for image in &args.images {
            sources.push(load_image(cx, image).await?);
        }
        let shape = keep_shape(args.size, sources[0].sides);
        let sources = sources.into_iter().map(|source| source.data).collect();
        let mask = match &args.mask {
            Some(mask) => Some(load_image(cx, mask).await?.data),
            None => None,
        };
        let wanted = DrawImages {
            prompt: args.prompt,
            count: args.count.unwrap_or(1),
            size: shape.0,
            sides: shape.1,
            quality: args.quality.unwrap_or_default(),
            transparent: args.transparent.unwrap_or_default(),
            sources,
            mask,
            area: args.area,
            ..DrawImages::default()
        };
        draw(cx, wanted, call).await
    }
}

/// `KeepImage`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeepArgs {
    /// Such as `.codebutler/images/image-1a2b-2.png`.
    pub image: String,
    /// Its path: as the plan names it, or below `.codebutler/artist/`. A `favicon.ico` is made of a PNG or JPEG.
    pub path: String,
}

struct KeepImage;

#[async_trait]
impl Handler for KeepImage {
    type Args = KeepArgs;
    const NAME: &'static str = "KeepImage";
    const DESCRIPTION: &'static str = "Commits an image that people chose, on this conversation's branch, and pushes it. People are asked where neither the approved plan nor your rights name the path.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: KeepArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let image = find_image(cx, &args.image).await?;
        let path = args.path.trim().trim_start_matches("./").to_owned();
        // Before people are asked about a path that can't be had.
        let check = ImageRequest::Check { image: image.clone(), path: path.clone() };
        let made = ask_text(cx, ToolboxRequest::Image(check)).await?;
        // Before anything is committed that could not be pushed.
        let wanted = PlaceImage { path: path.clone(), image: args.image.clone() };
        cx.gateway.place_image(&wanted).await?;
        let name = path.rsplit('/').next().unwrap_or(&path);
        let message = format!("Add the image {}\n", clip_text(name, 50));
        let commit = ask_text(
            cx,
            ToolboxRequest::Image(ImageRequest::Commit { image, path: path.clone(), message }),
        )
        .await?;
        match cx.push(&commit).await? {
            PushResult::Done(done) => {
                let done_as = format!("Committed as `{path}` on this conversation's branch.");
                let parts = [done_as.as_str(), &made, &done.text];
                let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
                let text = text.join(" ");
                Ok(ToolOutcome { text, ..*done })
            }
            PushResult::Conflict(why) => Err(ToolFailure::Respond(why)),
        }
    }
}

async fn draw(
    cx: &ToolContext,
    wanted: DrawImages,
    call: StartedCall<'_>,
) -> Result<ToolOutcome, ToolFailure> {
    let wanted = DrawImages { key: call.key.to_owned(), again: call.again, ..wanted };
    let drawn = match cx.gateway.draw_images(&wanted).await {
        Ok(drawn) => drawn,
        Err(error) => {
            return Err(match explain_refusal(&error) {
                Some(why) => ToolFailure::Respond(why),
                None => error.into(),
            });
        }
    };
    let mut kept = Vec::new();
    for image in &drawn.images {
        kept.push(keep_image(cx, &image.id, &image.name).await?);
    }
    Ok(describe_drawn(drawn, &kept))
}

/// What was made, for the model.
fn describe_drawn(drawn: DrawnImages, kept: &[String]) -> ToolOutcome {
    let cost = drawn.cost.map(|cost| format!(" They cost ${cost}.")).unwrap_or_default();
    let mut text = format!("The conversation shows them now.{cost}");
    for (index, kept) in kept.iter().enumerate() {
        text = format!("{text}\n{}. {kept}", index + 1);
    }
    let text = format!(
        "{text}\nRead shows you one. They are in no commit: KeepImage commits the one that people choose. “The second” is \
         the second of this list."
    );
    ToolOutcome::plain(text).noting(drawn.note)
}

/// Where an image is kept, in words.
async fn keep_image(cx: &ToolContext, id: &str, name: &str) -> Result<String, ToolFailure> {
    let (id, name) = (id.to_owned(), name.to_owned());
    let kept = async {
        keep_attachment(cx, &id).await?;
        ask_text(cx, ToolboxRequest::Image(ImageRequest::Keep { id: id.clone(), name })).await
    };
    match kept.await {
        Ok(path) => Ok(format!("`{path}`")),
        // It is paid for, and in the conversation.
        Err(ToolFailure::Respond(why)) => {
            Ok(format!("`slack:{id}` (not kept beside the work: {why})"))
        }
        Err(failure) => Err(failure),
    }
}

/// The path of an image for the toolbox.
async fn find_image(cx: &ToolContext, image: &str) -> Result<String, ToolFailure> {
    match split_path(image) {
        Some((id, _)) => keep_attachment(cx, id).await,
        None => Ok(image.trim().to_owned()),
    }
}

async fn load_image(cx: &ToolContext, image: &str) -> Result<WorktreePicture, ToolFailure> {
    load_source(cx, &find_image(cx, image).await?).await
}

/// The size of a changed image, and the sides that it keeps: those of its source, unless another size was asked for.
fn keep_shape(
    wanted: Option<ImageSize>,
    sides: Option<(u32, u32)>,
) -> (ImageSize, Option<(u32, u32)>) {
    match (wanted, sides) {
        (Some(size), _) => (size, None),
        (None, Some((width, height))) => (ImageSize::nearest(width, height), sides),
        (None, None) => (ImageSize::default(), None),
    }
}

#[cfg(test)]
mod tests {
    use codebutler_wire::{DrawnImage, NanoUsd};

    use super::*;

    #[test]
    fn a_changed_image_keeps_its_shape_unless_another_is_asked_for() {
        let of = |wanted, sides| keep_shape(wanted, sides);
        let wide = Some((1_920, 1_080));
        assert_eq!(of(None, wide), (ImageSize::Landscape, wide));
        assert_eq!(of(None, Some((3, 4))).0, ImageSize::Portrait);
        assert_eq!(of(None, Some((100, 90))).0, ImageSize::Square);
        assert_eq!(of(Some(ImageSize::Square), wide), (ImageSize::Square, None));
        assert_eq!(of(None, None), (ImageSize::Square, None));
        assert_eq!(ImageSize::nearest(0, 0), ImageSize::Square);
    }

    #[test]
    fn the_model_is_told_where_each_image_is_and_what_they_cost() {
        let image = |n: u8| DrawnImage { id: format!("F{n}"), name: format!("image-{n}.png") };
        let drawn = DrawnImages {
            images: vec![image(1), image(2)],
            cost: Some(NanoUsd(84_480_000)),
            note: Some("2 of 3 were made: why".to_owned()),
        };
        let kept =
            ["`.codebutler/images/image-1.png`".to_owned(), "`slack:F2` (not kept)".to_owned()];
        let ToolOutcome { text, notes, .. } = describe_drawn(drawn, &kept);
        assert!(
            text.starts_with(
                "The conversation shows them now. They cost $0.08448.\n1. `.codebutler/"
            ),
            "{text}"
        );
        assert!(text.contains("\n2. `slack:F2`"), "{text}");
        assert_eq!(notes, ["2 of 3 were made: why"]);
    }
}
