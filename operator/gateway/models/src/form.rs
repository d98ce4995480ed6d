//! A recording that is to be written down: OpenAI's multipart form, taken apart and put together
//! anew, so that the provider reads the same fields that were checked here.

use bytes::{BufMut as _, Bytes, BytesMut};
use codebutler_crds::role::RoleModel;
use codebutler_gateway_core::estimate;
use codebutler_gateway_core::sound_length::told_seconds;
use http::{HeaderMap, HeaderValue, header};

use super::request::{RequestError, check_model};

/// Fields that are passed on.
const FIELDS: [&str; 4] = ["language", "prompt", "response_format", "temperature"];
const LONGEST: usize = 8 * 1024;
/// Times by which a minute of a lean video (128 kbit/s) is larger than one of lean speech.
const VIDEO: u64 = 16;
/// Bytes of a second of the densest sound: as samples, and compressed. A shorter length than that is a lie.
const DENSE_SAMPLES: u64 = 1_200_000;
const DENSE: u64 = 40_000;

/// Reason why a form is not forwarded.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    #[error("the request is not a multipart form with `file` and `model`")]
    NotAForm(#[source] Option<multer::Error>),
    /// A field that is not known, or given twice.
    #[error("the field `{0}` is not allowed here, or is given twice: leave it out")]
    Field(String),
    /// The form asks for an answer without figures.
    #[error("`response_format` has to be json or verbose_json")]
    Format,
    #[error(transparent)]
    Model(#[from] RequestError),
}

#[derive(Debug)]
pub struct RecordingForm {
    /// The model that it is for.
    pub model: String,
    pub sound: Bytes,
    pub file_name: String,
    pub content_type: String,
    pub fields: Vec<(String, String)>,
    /// Length that its container tells, of a recording from Slack.
    told: Option<u64>,
    /// True for a video clip that Slack itself describes as one: what a role says of its own form makes nothing cheaper.
    is_video: bool,
}

impl RecordingForm {
    /// Reads and checks a form.
    ///
    /// # Errors
    /// A sentence for whoever wrote the request.
    pub async fn read(
        headers: &HeaderMap,
        body: Bytes,
        models: &RoleModel,
    ) -> Result<Self, FormError> {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = multer::parse_boundary(content_type.unwrap_or_default())
            .map_err(|error| FormError::NotAForm(Some(error)))?;
        let body = futures::stream::once(async move { Ok::<_, std::convert::Infallible>(body) });
        let mut form = multer::Multipart::new(body, boundary);
        let (mut model, mut sound, mut fields) = (None, None, Vec::<(String, String)>::new());
        let broken = |error| FormError::NotAForm(Some(error));
        while let Some(field) = form.next_field().await.map_err(broken)? {
            let name = field.name().unwrap_or_default().to_owned();
            match name.as_str() {
                "file" if sound.is_none() => {
                    let file_name = plain_name(field.file_name().unwrap_or("recording"));
                    let kind = field
                        .content_type()
                        .map_or("application/octet-stream", |m| m.essence_str());
                    let kind = kind.to_owned();
                    sound = Some((file_name, kind, field.bytes().await.map_err(broken)?));
                }
                "model" if model.is_none() => model = Some(field.text().await.map_err(broken)?),
                known if FIELDS.contains(&known) && fields.iter().all(|(had, _)| *had != name) => {
                    let text = field.text().await.map_err(broken)?;
                    if text.len() > LONGEST {
                        return Err(FormError::Field(name));
                    }
                    fields.push((name, text));
                }
                _ => return Err(FormError::Field(plain_name(&name))),
            }
        }
        let model = check_model(model.as_deref(), models)?;
        let (file_name, content_type, sound) = sound.ok_or(FormError::NotAForm(None))?;
        let format = fields.iter().find(|(name, _)| name == "response_format");
        if format.is_some_and(|(_, format)| !matches!(format.as_str(), "json" | "verbose_json")) {
            return Err(FormError::Format);
        }
        Ok(Self { model, sound, file_name, content_type, fields, told: None, is_video: false })
    }

    /// Makes a form of a recording that nobody sent as a form.
    pub fn of(model: String, (name, kind): (&str, &str), sound: Bytes) -> Self {
        let kind: String = kind.chars().filter(char::is_ascii_graphic).take(100).collect();
        let (file_name, fields) = (plain_name(name), Vec::new());
        let is_video = kind.starts_with("video/");
        let told = told_seconds(&sound);
        Self { model, sound, file_name, content_type: kind, fields, told, is_video }
    }

    /// Bytes of speech for which its length is estimated. Most of a video are its pictures.
    pub fn speech_bytes(&self) -> u64 {
        let bytes = u64::try_from(self.sound.len()).unwrap_or(u64::MAX);
        if self.is_video { bytes / VIDEO } else { bytes }
    }

    /// Seconds by which it is billed where no provider says them: those that its container tells, as far as they can
    /// be true, or else the most that its bytes may be.
    pub fn speech_seconds(&self) -> u64 {
        let bytes = self.speech_bytes();
        let Some(told) = self.told else { return estimate::sound_seconds(bytes) };
        let dense = if self.sound.starts_with(b"RIFF") { DENSE_SAMPLES } else { DENSE };
        let most = estimate::sound_seconds(u64::try_from(self.sound.len()).unwrap_or(u64::MAX));
        told.max(bytes / dense).min(most)
    }

    /// The form to forward, and its type, for the model with this id.
    pub fn body(&self, id: &str) -> (HeaderValue, Bytes) {
        let boundary = format!("codebutler{:032x}", rand::random::<u128>());
        let mut body = BytesMut::with_capacity(self.sound.len() + 1024);
        let model = ("model".to_owned(), id.to_owned());
        for (name, value) in std::iter::once(&model).chain(&self.fields) {
            let head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
            body.put_slice(head.as_bytes());
        }
        let Self { file_name, content_type, .. } = self;
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; \
             filename=\"{file_name}\"\r\ncontent-type: {content_type}\r\n\r\n"
        );
        body.put_slice(head.as_bytes());
        body.put_slice(&self.sound);
        body.put_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
        (kind.unwrap_or(HeaderValue::from_static("multipart/form-data")), body.freeze())
    }
}

/// The name without characters that mean something in a header.
fn plain_name(name: &str) -> String {
    let kept = |c: &char| c.is_ascii_alphanumeric() || "._- ".contains(*c);
    name.chars().filter(kept).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> RoleModel {
        let model = serde_json::json!({"default": "m/x", "audio": "whisper-1"});
        serde_json::from_value(model).unwrap()
    }

    async fn read(parts: &[(&str, &str)]) -> Result<RecordingForm, FormError> {
        let part = |(name, value): &(&str, &str)| {
            let file = if *name == "file" { "; filename=\"a\\\".wav\"" } else { "" };
            format!(
                "--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{value}\r\n"
            )
        };
        let mut body: Vec<String> = parts.iter().map(part).collect();
        body.push("--b--\r\n".to_owned());
        let body = body.concat();
        let kind = HeaderValue::from_static("multipart/form-data; boundary=b");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        RecordingForm::read(&headers, body.into(), &models()).await
    }

    #[tokio::test]
    async fn a_form_is_put_together_from_what_was_checked() {
        let given = [("file", "RIFF"), ("model", "whisper-1"), ("language", "es")];
        let recording = read(&given).await.unwrap();
        let (kind, body) = recording.body("whisper-1");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let again = RecordingForm::read(&headers, body, &models()).await.unwrap();
        assert_eq!((again.model.as_str(), &again.sound[..]), ("whisper-1", &b"RIFF"[..]));
        assert_eq!(again.fields, [("language".to_owned(), "es".to_owned())]);
        assert!(!again.file_name.contains('"'));
    }

    #[tokio::test]
    async fn a_video_clip_counts_as_the_speech_in_it_where_slack_says_that_it_is_one() {
        let of = |name, kind| {
            let sound = Bytes::from_static(&[0; 1600]);
            RecordingForm::of("whisper-1".to_owned(), (name, kind), sound)
        };
        let clip = of("clip.mp4", "video/mp4");
        assert_eq!(clip.speech_bytes(), 100);
        assert_eq!(of("clip.m4a", "audio/mp4").speech_bytes(), 1600);
        let (kind, body) = clip.body("whisper-1");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let own = RecordingForm::read(&headers, body, &models()).await.unwrap();
        assert_eq!((own.content_type.as_str(), own.speech_bytes()), ("video/mp4", 1600));
    }

    #[tokio::test]
    async fn a_recording_from_slack_is_as_long_as_it_says_within_reason() {
        let clip = |seconds: u32| {
            let length = (seconds * 1000).to_be_bytes();
            let header = [&[0_u8; 12][..], &1000_u32.to_be_bytes(), &length].concat();
            let boxes = b"\0\0\0\x08ftyp\0\0\0\x24moov\0\0\0\x1cmvhd";
            let sound = [&boxes[..], &header, &vec![0; 400_000]].concat();
            RecordingForm::of("whisper-1".to_owned(), ("voice.m4a", "audio/mp4"), sound.into())
        };
        assert_eq!(clip(50).speech_seconds(), 50);
        assert_eq!(clip(1).speech_seconds(), 10, "no sound is so dense");
        assert_eq!(clip(9999).speech_seconds(), 401, "by its bytes at most");
        let (kind, body) = clip(50).body("whisper-1");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let own = RecordingForm::read(&headers, body, &models()).await.unwrap();
        assert_eq!(own.speech_seconds(), 401, "a role may write anything into it");
    }

    #[tokio::test]
    async fn a_second_model_or_an_unknown_field_is_refused() {
        for parts in [
            &[("file", "x"), ("model", "whisper-1"), ("model", "whisper-9")][..],
            &[("file", "x"), ("model", "whisper-9")],
            &[("file", "x")],
            &[("model", "whisper-1")],
            &[("file", "x"), ("model", "whisper-1"), ("stream", "true")],
            &[("file", "x"), ("model", "whisper-1"), ("response_format", "srt")],
        ] {
            assert!(read(parts).await.is_err(), "{parts:?}");
        }
        assert!(RecordingForm::read(&HeaderMap::new(), Bytes::new(), &models()).await.is_err());
    }
}
