//! `/v1/images/…`: images that a role has made, and where one of them may go. People are asked before the first one
//! of a Thread, with its description and price; what a call made is in the conversation, and found there again.

use std::time::Duration;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::thread::ActionApproval;
use codebutler_crds::wire::{
    DrawImages, DrawnImage, DrawnImages, ErrorCode, ImagePlaced, ImageQuality, ImageSize,
    MAX_IMAGE_PROMPT, MAX_SOURCE, MOST_IMAGES, MOST_SOURCES, PlaceImage,
};
use codebutler_crds::{NanoUsd, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::approval;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::{ApprovedEffect, ConsentStanding};
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, needs_tool};
use codebutler_gateway_core::image_kind::{is_image_path, may_shine_through};
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_git::guard::{GuardedReason, PathGuard};
use codebutler_models::draw::{
    DrawingOrder, MadeImages, PlannedDrawing, SentImage, make_images, plan_drawing,
};
use codebutler_models::{AdmittedCaller, CallSlot};
use sha2::{Digest as _, Sha256};
use tracing::Instrument as _;

use crate::paid_calls::{PaidCallKey, PaidEnd, as_final, check_key};
use crate::state::SharedGateway;

const MAX_PATH: usize = 120;
/// Characters of a description that stand in the conversation with the images.
const SHOWN: usize = 200;
/// Maximum number of paths that people allow in a Thread; the oldest ones go.
const PATHS: usize = 16;
/// Pauses between attempts to post what is paid for.
const PAUSES: [u64; 4] = [1, 3, 8, 20];
/// Error where a call of this key may have been made before, and nothing of it is in the conversation.
const LOST: &str = "this call was interrupted, and none of its images are in the conversation. It may have been paid for, so \
    it is not made again by itself: call the tool anew if the images are still wanted";

/// Handles `POST /v1/images/drawn`: makes or changes images.
pub(super) async fn draw_images(
    State(gateway): State<SharedGateway>,
    AdmittedCaller(caller, place): AdmittedCaller,
    JsonBody(wanted): JsonBody<DrawImages>,
) -> Result<axum::Json<DrawnImages>, ApiError> {
    needs_tool(&caller, &[tool_of(&wanted)])?;
    let mut order = read_order(&wanted)?;
    if caller.repo.spec.policy.redact_models {
        let redactor = gateway.models.outcomes.redactor(&caller).await?;
        order.prompt = redactor.mask(&order.prompt).into_owned();
        order.area = order.area.map(|area| redactor.mask(&area).into_owned());
    }
    let key = PaidCallKey::of(&caller, &wanted.key);
    let (waiter, new) = gateway.drawings.join(&key, &digest_of(&wanted))?;
    if let Some(new) = new {
        let group = gateway.models.answers.clone();
        // On a task of its own: what has begun is paid for, whether or not the pod that asked is still there.
        let run = async move {
            let end = run_call(&gateway, &caller, (&wanted, order)).await;
            new.finish(end);
            drop::<CallSlot>(place);
        };
        drop(group.spawn(run.in_current_span()));
    }
    match waiter.end().await {
        Some(end) => end.map(axum::Json),
        None => Err(ApiError::new(ErrorCode::Upstream, LOST)),
    }
}

const fn tool_of(wanted: &DrawImages) -> &'static str {
    if wanted.sources.is_empty() { "GenerateImage" } else { "EditImage" }
}

fn digest_of(wanted: &DrawImages) -> String {
    let same = serde_json::to_vec(&DrawImages { again: false, ..wanted.clone() });
    hex::encode(Sha256::digest(same.unwrap_or_default()))
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, why)
}

/// Validates a request, and makes an order of it.
fn read_order(wanted: &DrawImages) -> Result<DrawingOrder, ApiError> {
    check_key(&wanted.key)?;
    let length = wanted.prompt.trim().chars().count();
    if length == 0 || length > MAX_IMAGE_PROMPT {
        return Err(invalid(&format!("`prompt` has 1 to {MAX_IMAGE_PROMPT} characters")));
    }
    if wanted.area.as_ref().is_some_and(|area| area.chars().count() > MAX_IMAGE_PROMPT) {
        return Err(invalid(&format!("`area` has at most {MAX_IMAGE_PROMPT} characters")));
    }
    if wanted.count == 0 || wanted.count > MOST_IMAGES {
        return Err(invalid(&format!("`count` is 1 to {MOST_IMAGES}")));
    }
    if wanted.sources.len() > MOST_SOURCES {
        return Err(invalid(&format!("at most {MOST_SOURCES} images are changed at once")));
    }
    if wanted.sources.is_empty() && (wanted.mask.is_some() || wanted.area.is_some()) {
        return Err(invalid(
            "a mask or an area is a part of an image that is changed: name the image",
        ));
    }
    let sources: Result<Vec<_>, _> = wanted.sources.iter().map(|data| read_image(data)).collect();
    let sources = sources?;
    let mask = wanted.mask.as_deref().map(read_image).transpose()?;
    if let Some(mask) = &mask {
        check_mask(mask, sources.first())?;
    }
    Ok(DrawingOrder {
        prompt: wanted.prompt.trim().to_owned(),
        count: wanted.count,
        size: wanted.size,
        sides: wanted.sides,
        quality: wanted.quality,
        transparent: wanted.transparent,
        sources,
        mask,
        area: wanted.area.clone().filter(|area| !area.trim().is_empty()),
    })
}

/// Validates a mask by what providers take: OpenAI refuses others, and a model of a chat is paid for having seen one.
fn check_mask(mask: &SentImage, source: Option<&SentImage>) -> Result<(), ApiError> {
    if mask.kind != "image/png" || !may_shine_through(&mask.bytes) {
        return Err(invalid(
            "the mask has to be a PNG that is transparent where the image is changed",
        ));
    }
    let source = source.filter(|source| source.kind == mask.kind);
    if source.is_some_and(|source| png_sides(source) != png_sides(mask)) {
        return Err(invalid("the mask has to be as wide and as high as the first image"));
    }
    Ok(())
}

/// Width and height of a PNG, as they stand in it.
fn png_sides(image: &SentImage) -> Option<&[u8]> {
    image.bytes.get(16..24)
}

fn read_image(data: &str) -> Result<SentImage, ApiError> {
    let bytes = STANDARD.decode(data).map_err(|_| invalid("an image is no base64"))?;
    if bytes.len() > MAX_SOURCE {
        return Err(invalid(&format!(
            "an image that is changed has at most {} MiB: make a smaller copy",
            MAX_SOURCE >> 20
        )));
    }
    SentImage::new(bytes.into()).filter(|image| image.kind != "image/gif").ok_or_else(|| {
        invalid("an image that is changed has to be PNG, JPEG or WebP by its bytes, whatever its name says")
    })
}

async fn run_call(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    (wanted, order): (&DrawImages, DrawingOrder),
) -> PaidEnd<DrawnImages> {
    let end = Box::pin(carry_out(gateway, caller, wanted, order)).await;
    end.map_err(as_final)
}

async fn carry_out(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    wanted: &DrawImages,
    order: DrawingOrder,
) -> Result<DrawnImages, ApiError> {
    if wanted.again {
        let images = gateway.work.slack.find_drawn(caller, &wanted.key).await?;
        if images.is_empty() {
            return Err(ApiError::new(ErrorCode::Upstream, LOST));
        }
        return Ok(DrawnImages { images, ..DrawnImages::default() });
    }
    let planned = plan_drawing(&gateway.models, caller, &order)?;
    gateway.work.slack.require_files(caller).await?;
    approve_first(gateway, caller, (tool_of(wanted), &order), &planned).await?;
    let model = planned.model.clone();
    let made = make_images(&gateway.models, caller, planned).await;
    if made.images.is_empty() {
        return Err(explain_nothing(made));
    }
    let note = explain_missing(&order, &made, &model);
    let caption = write_caption(&order, &made, note.as_deref());
    let images = post_patiently(gateway, caller, (&wanted.key, &caption), &made).await?;
    Ok(DrawnImages { images, cost: Some(made.cost), note })
}

/// Sentences about parts of the order that the model did not fulfil, if any.
fn explain_missing(order: &DrawingOrder, made: &MadeImages, model: &str) -> Option<String> {
    let fewer = made.failure.as_ref().map(|failure| {
        let (got, count) = (made.images.len(), order.count);
        format!("{got} of {count} were made: {}", failure.message)
    });
    let is_opaque = order.transparent && !made.images.iter().all(|image| may_shine_through(image));
    let opaque = is_opaque.then(|| {
        format!(
            "`{model}` made a background all the same: by their bytes the images are not transparent. Another model in \
             spec.model.image may be able to, such as `gpt-image-1.5`"
        )
    });
    let notes: Vec<String> = [fewer, opaque].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}

/// Error where the model made no image, with the cost that was paid all the same.
fn explain_nothing(made: MadeImages) -> ApiError {
    let failure = made.failure;
    let (code, why) = failure.map_or_else(
        || (ErrorCode::Upstream, "the model made no image".to_owned()),
        |failure| (failure.code, failure.message),
    );
    let paid = if made.cost == NanoUsd::ZERO {
        String::new()
    } else {
        format!(" The answer cost {}.", made.cost.in_cents())
    };
    ApiError::new(code, format!("no image: {}.{paid}", why.trim_end_matches('.')))
}

/// Placeholder where it is not on record who allowed images.
const UNKNOWN_GIVER: &str = "unknown";

/// Passes once people have allowed images in the Thread.
async fn approve_first(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    (tool, order): (&str, &DrawingOrder),
    planned: &PlannedDrawing,
) -> Result<(), ApiError> {
    let (key, threads) = (caller.key(), &gateway.work.threads);
    let thread = threads.read(&key).await.map_err(|error| explain_unwritten(&error))?;
    let allowed = thread.status.as_ref().and_then(|status| status.images.as_ref());
    if let Some(by) = allowed.and_then(|images| images.allowed_by.as_deref())
        && (by == UNKNOWN_GIVER || gateway.work.consent.still_allows(caller, by).await?)
    {
        return Ok(());
    }
    let (summary, detail) = show_order(order, planned);
    let standing = Box::pin(gateway.work.consent.ask_for(caller, tool, summary, detail)).await?;
    passed(
        &standing,
        "these are the first images of this conversation, so people are asked, with the price",
    )?;
    let thread = threads.read(&key).await.map_err(|error| explain_unwritten(&error))?;
    let by = find_approver(&thread, &standing).unwrap_or_else(|| UNKNOWN_GIVER.to_owned());
    let allow = |status: &mut ThreadStatus| {
        status.images.get_or_insert_default().allowed_by = Some(by.clone());
    };
    threads.update(&key, allow).await.map_err(|error| explain_unwritten(&error))?;
    gateway.work.consent.spend(caller, &standing).await;
    Ok(())
}

fn passed(standing: &ConsentStanding, why: &str) -> Result<(), ApiError> {
    let message = match (standing, standing.refusal()) {
        (_, None) => return Ok(()),
        (ConsentStanding::Waits { .. }, _) => format!(
            "{why}: end your run. Their answer wakes you; then make exactly the same call again"
        ),
        (_, Some((_, message))) => message.to_owned(),
    };
    Err(ApiError::new(ErrorCode::NeedsApproval, message))
}

fn find_approver(thread: &Thread, standing: &ConsentStanding) -> Option<String> {
    let ConsentStanding::Approved(ApprovedEffect(id)) = standing else { return None };
    let mut approvals = thread.status.as_ref()?.approvals.iter();
    approvals.find(|one: &&ActionApproval| one.id == *id)?.by.clone()
}

/// The question: in one line, and all of it.
fn show_order(order: &DrawingOrder, planned: &PlannedDrawing) -> (String, String) {
    let does = if order.sources.is_empty() { "Make" } else { "Change an image into" };
    let what = count_images(usize::from(order.count));
    let price = planned.estimate.in_cents();
    let summary = format!("{does} {what} for about {price}");
    let mut detail = format!(
        "{what}, {}, about {price}, by {}.\nA yes holds for this thread: later images are made without asking, within its \
         budget.\n\n{}",
        describe_form(order),
        planned.model,
        order.prompt
    );
    if let Some(area) = &order.area {
        detail = format!("{detail}\n\nOnly this part: {area}");
    }
    if order.mask.is_some() {
        detail.push_str("\n\nOnly where the mask is transparent.");
    }
    (summary, detail)
}

fn describe_form(order: &DrawingOrder) -> String {
    let size = match order.size {
        ImageSize::Square => "square",
        ImageSize::Landscape => "landscape",
        ImageSize::Portrait => "portrait",
    };
    let quality = match order.quality {
        ImageQuality::Low => "low quality",
        ImageQuality::Medium => "medium quality",
        ImageQuality::High => "high quality",
    };
    let background = if order.transparent { ", without a background" } else { "" };
    format!("{size}, {quality}{background}")
}

fn count_images(count: usize) -> String {
    if count == 1 { "1 image".to_owned() } else { format!("{count} images") }
}

/// The line with the images. The description addresses nobody in it.
fn write_caption(order: &DrawingOrder, made: &MadeImages, note: Option<&str>) -> String {
    let shown = |c: char| if c.is_control() || matches!(c, '`' | '@') { ' ' } else { c };
    let prompt: String = order.prompt.chars().map(shown).collect();
    let prompt = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = prompt.chars().take(SHOWN).collect();
    let cut = if short.len() < prompt.len() { "…" } else { "" };
    let what = count_images(made.images.len());
    let choose = if made.images.len() > 1 {
        "Say which one to use, such as “use the second”, or what to change."
    } else {
        "Say that it is to be used, or what to change."
    };
    let note = note.map(|note| format!("\n{note}")).unwrap_or_default();
    let (form, cost) = (describe_form(order), made.cost.in_cents());
    format!("{what} ({form}, {cost}): {short}{cut}{note}\n{choose}")
}

/// Posts images to Slack, with retries: they are paid for already.
async fn post_patiently(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    about: (&str, &str),
    made: &MadeImages,
) -> Result<Vec<DrawnImage>, ApiError> {
    let mut pauses = PAUSES.iter();
    loop {
        let error = match gateway.work.slack.post_drawn(caller, about, &made.images).await {
            Ok(images) => return Ok(images),
            Err(error) => error,
        };
        let pause = pauses.next().filter(|_| error.code == ErrorCode::Unavailable);
        let Some(pause) = pause else {
            let cost = made.cost.in_cents();
            let message = format!("images were made for {cost}, and are lost: {}", error.message);
            return Err(ApiError::new(ErrorCode::Upstream, message));
        };
        tracing::warn!(%error, "image_post_failed");
        tokio::time::sleep(Duration::from_secs(*pause)).await;
    }
}

/// Handles `POST /v1/images/places`: checks whether an image may be placed.
pub(super) async fn place_image(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<PlaceImage>,
) -> Result<axum::Json<ImagePlaced>, ApiError> {
    const TOOL: &str = "KeepImage";
    needs_tool(&caller, &[TOOL])?;
    let path = check_path(&wanted.path)?;
    let forbidden = |why: String| ApiError::new(ErrorCode::Forbidden, why);
    let rights = caller.role.spec.push.as_ref();
    let rights = rights.ok_or_else(|| forbidden("this role may push nothing".to_owned()))?;
    let images = approval::image_paths(&gateway.work.context, &caller).await?;
    let guard = PathGuard::new(&caller.repo.spec.policy, Some(rights), &images);
    match guard.map_err(|error| forbidden(error.to_string()))?.why(path) {
        None => return Ok(axum::Json(ImagePlaced {})),
        Some(GuardedReason::NotAllowed) if rights.planned_images => {}
        Some(GuardedReason::NotAllowed) => {
            let why = format!(
                "this role may push no image at `{path}`, only at {}",
                rights.paths.join(", ")
            );
            return Err(forbidden(why));
        }
        Some(GuardedReason::Protected) => {
            let why = format!(
                "`{path}` is protected in this repository: a person has to put the image there"
            );
            return Err(forbidden(why));
        }
    }
    let name: String = wanted.image.chars().filter(|c| !c.is_control()).take(MAX_PATH).collect();
    let summary = format!("Commit the image {name} at {path}");
    let detail = format!("{name} at {path}, on this thread's branch.");
    let standing = Box::pin(gateway.work.consent.ask_for(&caller, TOOL, summary, detail)).await?;
    passed(&standing, "no approved plan names this path, so people are asked")?;
    let allow = |status: &mut ThreadStatus| {
        let paths = &mut status.images.get_or_insert_default().paths;
        paths.retain(|known| known != path);
        paths.push(path.to_owned());
        let old = paths.len().saturating_sub(PATHS);
        paths.drain(..old);
    };
    let kept = gateway.work.threads.update(&caller.key(), allow).await;
    kept.map_err(|error| explain_unwritten(&error))?;
    gateway.work.consent.spend(&caller, &standing).await;
    Ok(axum::Json(ImagePlaced {}))
}

fn check_path(path: &str) -> Result<&str, ApiError> {
    let path = path.trim().trim_start_matches("./");
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let fits = path.len() <= MAX_PATH && path.split('/').all(plain);
    if !fits || path.contains(['\\', '\n', '\0', '`']) {
        return Err(invalid(
            "`path` is a file of this repository, relative to its root, of at most 120 bytes",
        ));
    }
    if !is_image_path(path) {
        return Err(invalid("`path` ends in .png, .jpg, .jpeg, .webp, .gif or .ico"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
