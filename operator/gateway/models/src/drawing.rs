//! Images of a model: how each API is asked for them, and what is in its answer. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_crds::role::{ModelRouting, RoleModel};
use codebutler_crds::wire::{ImageQuality, ImageSize, MAX_IMAGE};
use codebutler_gateway_core::estimate;
use codebutler_gateway_core::image_kind::media_type;
use http::HeaderValue;
use serde_json::{Value, json};

use super::dialect::ApiDialect;
use super::prepare::{RequestShape, provider_routing};

/// Characters of a model's words that are told.
const SAID: usize = 300;

/// An order of images.
#[derive(Clone, Debug, Default)]
pub struct DrawingOrder {
    pub prompt: String,
    pub count: u8,
    pub size: ImageSize,
    /// Width and height of the shape that is kept, where no size was asked for.
    pub sides: Option<(u32, u32)>,
    pub quality: ImageQuality,
    pub transparent: bool,
    /// Images to change: the first one is changed, the others are there to look at.
    pub sources: Vec<SentImage>,
    pub mask: Option<SentImage>,
    /// The part of the first source that is changed, in words.
    pub area: Option<String>,
}

/// An image that a model is sent.
#[derive(Clone, Debug)]
pub struct SentImage {
    /// Media type, by the image's bytes.
    pub kind: &'static str,
    pub bytes: Bytes,
}

impl SentImage {
    /// An image of a kind that models take.
    pub fn new(bytes: Bytes) -> Option<Self> {
        media_type(&bytes).map(|kind| Self { kind, bytes })
    }

    fn extension(&self) -> &'static str {
        self.kind.rsplit('/').next().unwrap_or_default()
    }
}

/// A call of a model that makes images.
#[derive(Debug)]
pub(crate) struct DrawingJob {
    pub model: String,
    pub order: DrawingOrder,
}

/// API by which a model is asked for images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawingApi {
    /// OpenAI's, of which there are two endpoints.
    OpenAi,
    /// OpenRouter's own, for models that write no words.
    OpenRouter,
    /// A chat whose answer is one image.
    Chat,
}

impl DrawingApi {
    fn of(order: &DrawingOrder, shape: &RequestShape<'_>) -> Self {
        if shape.dialect != ApiDialect::OpenRouter {
            return Self::OpenAi;
        }
        // It knows neither masks nor what providers may keep of what they are sent.
        let is_free = image_routing(shape.role).is_none();
        let is_own = shape.facts.draws_only && order.mask.is_none() && is_free;
        if is_own { Self::OpenRouter } else { Self::Chat }
    }
}

impl DrawingJob {
    /// The calls that an order takes. OpenRouter gives one image for each: many of its providers make no more at once.
    pub(crate) fn split(model: &str, dialect: ApiDialect, order: &DrawingOrder) -> Vec<Self> {
        let job = |order: DrawingOrder| Self { model: model.to_owned(), order };
        if dialect != ApiDialect::OpenRouter {
            return vec![job(order.clone())];
        }
        (0..order.count).map(|_| job(DrawingOrder { count: 1, ..order.clone() })).collect()
    }

    /// Below the provider's base URL.
    pub(crate) fn path(&self, shape: &RequestShape<'_>) -> &'static [&'static str] {
        match (DrawingApi::of(&self.order, shape), self.order.sources.is_empty()) {
            (DrawingApi::Chat, _) => &["chat", "completions"],
            (DrawingApi::OpenRouter, _) => &["images"],
            (DrawingApi::OpenAi, true) => &["images", "generations"],
            (DrawingApi::OpenAi, false) => &["images", "edits"],
        }
    }

    pub(crate) fn estimate(&self, price: &ModelPrice) -> NanoUsd {
        let DrawingOrder { prompt, count, size, quality, sources, mask, .. } = &self.order;
        let sent = sources.len() + usize::from(mask.is_some());
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let images = (u64::from(*count), *size, *quality);
        estimate::estimate_drawing(number(prompt.len()), number(sent), images, price)
    }

    /// The body to send, and its type.
    pub(crate) fn body(&self, shape: &RequestShape<'_>) -> (HeaderValue, Bytes) {
        let json = HeaderValue::from_static("application/json");
        match DrawingApi::of(&self.order, shape) {
            DrawingApi::Chat => (json, chat_request(&self.order, shape).to_string().into()),
            DrawingApi::OpenRouter => (json, image_request(&self.order, shape).to_string().into()),
            DrawingApi::OpenAi if self.order.sources.is_empty() => {
                let fields = image_fields(&self.order, shape.id);
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                (json, Value::Object(fields.collect()).to_string().into())
            }
            DrawingApi::OpenAi => edit_form(&self.order, shape.id),
        }
    }
}

/// The words that a model is sent.
fn full_prompt(order: &DrawingOrder) -> String {
    let mut words = order.prompt.trim().to_owned();
    if let Some(area) = &order.area {
        words = format!(
            "{words}\n\nChange only this part: {}. Leave everything else exactly as it is.",
            area.trim().trim_end_matches('.')
        );
    }
    words
}

/// Shapes that image models of chats know, by width and height.
const RATIOS: [(u32, u32); 10] =
    [(1, 1), (3, 2), (2, 3), (4, 3), (3, 4), (5, 4), (4, 5), (16, 9), (9, 16), (21, 9)];

fn aspect_ratio(order: &DrawingOrder) -> String {
    let (width, height) = order.sides.unwrap_or(match order.size {
        ImageSize::Square => (1, 1),
        ImageSize::Landscape => (3, 2),
        ImageSize::Portrait => (2, 3),
    });
    // By how much the longer one of two shapes is longer.
    let apart = |&(wide, high): &(u32, u32)| {
        let (one, other) =
            (u64::from(width) * u64::from(high), u64::from(height) * u64::from(wide));
        (one.max(other) * 1_000).checked_div(one.min(other)).unwrap_or(u64::MAX)
    };
    let (wide, high) = RATIOS.iter().copied().min_by_key(apart).unwrap_or((1, 1));
    format!("{wide}:{high}")
}

/// Pixels of an image whose shape is free, and the step of its sides.
const AREA: f64 = 1_536.0 * 1_024.0;
const STEP: f64 = 16.0;

/// The size in pixels: newer models make any shape, and others one of three.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounded just before
fn pixel_size(order: &DrawingOrder, id: &str) -> String {
    let size = match order.size {
        ImageSize::Square => "1024x1024",
        ImageSize::Landscape => "1536x1024",
        ImageSize::Portrait => "1024x1536",
    };
    let sides = order.sides.filter(|(width, height)| *width > 0 && *height > 0);
    let Some((width, height)) = sides.filter(|_| id.contains("gpt-image-2")) else {
        return size.to_owned();
    };
    // Within one to three, rounded or not.
    let ratio = (f64::from(width) / f64::from(height)).clamp(0.35, 2.85);
    let pixels = |length: f64| ((length / STEP).round() * STEP) as u32;
    format!("{}x{}", pixels((AREA * ratio).sqrt()), pixels((AREA / ratio).sqrt()))
}

/// The fields of OpenAI's images API.
fn image_fields(order: &DrawingOrder, id: &str) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("model", json!(id)),
        ("prompt", json!(full_prompt(order))),
        ("n", json!(order.count)),
        ("size", json!(pixel_size(order, id))),
        ("quality", json!(order.quality)),
    ];
    if order.transparent {
        fields.extend([("background", json!("transparent")), ("output_format", json!("png"))]);
    }
    fields
}

/// The form of OpenAI's edits: several sources are a list.
fn edit_form(order: &DrawingOrder, id: &str) -> (HeaderValue, Bytes) {
    let boundary = format!("codebutler{:032x}", rand::random::<u128>());
    let mut body = BytesMut::new();
    for (name, value) in image_fields(order, id) {
        let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
        body.put_slice(head.as_bytes());
    }
    let field = if order.sources.len() == 1 { "image" } else { "image[]" };
    let sources = order.sources.iter().map(|source| (field, source));
    for (number, (field, image)) in
        sources.chain(order.mask.iter().map(|m| ("mask", m))).enumerate()
    {
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{field}\"; filename=\"{number}.{}\"\r\n\
             content-type: {}\r\n\r\n",
            image.extension(),
            image.kind
        );
        body.put_slice(head.as_bytes());
        body.put_slice(&image.bytes);
        body.put_slice(b"\r\n");
    }
    body.put_slice(format!("--{boundary}--\r\n").as_bytes());
    let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
    (kind.unwrap_or(HeaderValue::from_static("multipart/form-data")), body.freeze())
}

/// An image as a part of a request, in its bytes.
fn image_part(image: &SentImage) -> Value {
    let url = format!("data:{};base64,{}", image.kind, STANDARD.encode(&image.bytes));
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// The request of OpenRouter's images API.
fn image_request(order: &DrawingOrder, shape: &RequestShape<'_>) -> Value {
    let mut request = json!({
        "model": shape.id,
        "prompt": full_prompt(order),
        "aspect_ratio": aspect_ratio(order),
        "quality": order.quality,
    });
    if order.transparent {
        (request["background"], request["output_format"]) = ("transparent".into(), "png".into());
    }
    if !order.sources.is_empty() {
        request["input_references"] = order.sources.iter().map(image_part).collect();
    }
    request
}

/// A chat whose answer is an image.
fn chat_request(order: &DrawingOrder, shape: &RequestShape<'_>) -> Value {
    let mut words = full_prompt(order);
    if order.transparent {
        words.push_str("\n\nThe background is transparent.");
    }
    if order.mask.is_some() {
        words.push_str(
            "\n\nThe last image is a mask of the first one: change only what is transparent in it.",
        );
    }
    let mut content = vec![json!({"type": "text", "text": words})];
    content.extend(order.sources.iter().chain(&order.mask).map(image_part));
    let mut config = json!({"aspect_ratio": aspect_ratio(order), "quality": order.quality});
    if order.transparent {
        (config["background"], config["output_format"]) = ("transparent".into(), "png".into());
    }
    let modalities: &[&str] = if shape.facts.draws_only { &["image"] } else { &["image", "text"] };
    let mut request = json!({
        "model": shape.id,
        "messages": [{"role": "user", "content": content}],
        "modalities": modalities,
        "image_config": config,
        "session_id": shape.session,
    });
    if let Some(routing) = image_routing(shape.role) {
        request["provider"] = routing;
    }
    request
}

/// Returns the role's data policy for those who keep what is sent. Its providers by name are left
/// out: they are those of other models.
fn image_routing(role: &RoleModel) -> Option<Value> {
    let ModelRouting { data_collection, zdr, .. } = role.routing.clone()?;
    provider_routing(&ModelRouting { data_collection, zdr, ..ModelRouting::default() })
}

/// Reason why an answer has no images.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DrawnError {
    #[error("the model made no image")]
    Nothing,
    /// The model answered in words instead.
    #[error("the model made no image and said: {0}")]
    Said(String),
    #[error(
        "the provider answered with the address of an image and not with the image itself, which is not fetched: choose a \
         model for spec.model.image that answers with images (`b64_json`)"
    )]
    Address,
    #[error("the model's image is none: its bytes are neither PNG, JPEG, WebP nor GIF")]
    NoImage,
    #[error("the model's image has {0} bytes, and at most {max} MiB are taken: ask for a smaller size", max = MAX_IMAGE >> 20)]
    TooLarge(usize),
}

/// The images of an answer, at most `most`: what they are is what their bytes say.
///
/// # Errors
/// Why there are none.
pub(crate) fn read_images(answer: &[u8], most: usize) -> Result<Vec<Bytes>, DrawnError> {
    let answer: Value = serde_json::from_slice(answer).map_err(|_| DrawnError::Nothing)?;
    let message = &answer["choices"][0]["message"];
    let listed = answer["data"].as_array().into_iter().flatten();
    let listed = listed.filter_map(|one| one["b64_json"].as_str().or_else(|| one["url"].as_str()));
    let shown = message["images"].as_array().into_iter().flatten();
    let shown = shown.filter_map(|one| one["image_url"]["url"].as_str());
    let (mut images, mut fault) = (Vec::new(), None);
    for text in listed.chain(shown).take(most) {
        match read_image(text) {
            Ok(image) => images.push(image),
            Err(error) => fault = Some(error),
        }
    }
    if !images.is_empty() {
        return Ok(images);
    }
    let words = message["refusal"].as_str().or_else(|| message["content"].as_str());
    let words = words.map(str::trim).filter(|words| !words.is_empty());
    let said = words.map(|words| DrawnError::Said(words.chars().take(SAID).collect()));
    Err(fault.or(said).unwrap_or(DrawnError::Nothing))
}

fn read_image(text: &str) -> Result<Bytes, DrawnError> {
    if text.starts_with("https://") || text.starts_with("http://") {
        return Err(DrawnError::Address);
    }
    let data = match text.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,").map_or("", |(_, data)| data),
        None => text,
    };
    if data.len() / 4 * 3 > MAX_IMAGE {
        return Err(DrawnError::TooLarge(data.len() / 4 * 3));
    }
    let bytes = STANDARD.decode(data.trim()).map_err(|_| DrawnError::NoImage)?;
    media_type(&bytes).ok_or(DrawnError::NoImage)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests;
